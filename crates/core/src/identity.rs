//! The rank and job of this process in a distributed job, read from the environment.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::fork::get_or_make;

/// The position of this process in a distributed job. `None` for values that the environment does
/// not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// An error message about a launcher's impossible values.
    #[serde(skip)]
    pub problem: Option<String>,
}

/// The variables for rank, local rank and world size, per launcher. The first launcher with a valid
/// rank and size is used.
pub const LAUNCHERS: [[&str; 3]; 3] = [
    ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"],
];

pub const JOBS: [&str; 2] = ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"];

impl Identity {
    /// Returns the identity of this process. It does not change.
    pub fn of_process() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        get_or_make(&IDENTITY, || Self::from(|name| std::env::var(name).ok()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
        let mut identity = Self::default();
        for names @ [rank, local_rank, world_size] in LAUNCHERS {
            if variable(rank).is_none() || variable(world_size).is_none() {
                continue;
            }
            if let (Some(own), Some(size)) = (number(rank), number(world_size))
                && let local = number(local_rank).unwrap_or(own)
                && own.max(local) < size
            {
                identity.rank = Some(own);
                identity.local_rank = Some(local);
                identity.world_size = Some(size);
                break;
            }
            identity.problem.get_or_insert_with(|| impossible(names, &variable));
        }
        let job = |name: &&str| variable(name).map(|job| job.trim().to_owned());
        identity.job_id = JOBS.iter().filter_map(job).find(|job| !job.is_empty());
        identity
    }
}

/// Returns a message about why a launcher's numbers cannot be used.
fn impossible(names: [&str; 3], variable: impl Fn(&str) -> Option<String>) -> String {
    // Another program may use the same name for something long.
    let short = |value: String| value.chars().take(40).collect::<String>();
    let said = names.iter().filter_map(|name| Some(format!("{name}={}", short(variable(name)?))));
    let [rank, local_rank, world_size] = names;
    format!(
        "{} cannot be: {rank} and {local_rank} are numbers from 0 to {world_size} - 1",
        said.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(variables: &[(&str, &str)]) -> Identity {
        Identity::from(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_first_launcher_with_rank_and_size_counts() {
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_LOCALID", "2"),
            ("SLURM_NTASKS", "6"),
            ("SLURM_JOB_ID", " 17 "),
        ];
        let found = identity(&slurm);
        assert_eq!((found.rank, found.local_rank, found.world_size), (Some(5), Some(2), Some(6)));
        assert_eq!(found.job_id.as_deref(), Some("17"));
        let both = [&slurm[..], &[("RANK", "3"), ("WORLD_SIZE", "8")]].concat();
        assert_eq!(identity(&both).rank, Some(3));
        assert_eq!(identity(&both).local_rank, Some(3), "without a local rank it is the rank");
    }

    #[test]
    fn what_is_not_named_is_left_out() {
        assert_eq!(identity(&[]), Identity::default());
        assert_eq!(identity(&[("WORLD_SIZE", "4")]), Identity::default());
    }

    #[test]
    fn what_cannot_be_is_left_out_with_a_reason() {
        let impossible = |said: &str| Identity {
            problem: Some(format!(
                "{said} cannot be: RANK and LOCAL_RANK are numbers from 0 to WORLD_SIZE - 1"
            )),
            ..Identity::default()
        };
        assert_eq!(
            identity(&[("RANK", "4"), ("WORLD_SIZE", "4")]),
            impossible("RANK=4, WORLD_SIZE=4")
        );
        assert_eq!(
            identity(&[("RANK", "x"), ("WORLD_SIZE", "4")]),
            impossible("RANK=x, WORLD_SIZE=4")
        );
        let local = [("RANK", "1"), ("LOCAL_RANK", "9"), ("WORLD_SIZE", "4")];
        assert_eq!(identity(&local), impossible("RANK=1, LOCAL_RANK=9, WORLD_SIZE=4"));
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_NTASKS", "6")];
        let both = identity(&[&local[..], &slurm].concat());
        assert_eq!(both.rank, Some(5), "another launcher is right");
        assert!(both.problem.is_some());
    }
}
