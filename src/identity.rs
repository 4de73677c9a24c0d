//! Which part of a larger job this process is, when its environment says so.

use serde::{Deserialize, Serialize};

use crate::once::Once;

/// The place of this process in a distributed job. What the environment does not name is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local_rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) world_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job_id: Option<String>,
}

/// Rank, local rank and world size, as each launcher names them; the first with a rank and a size counts.
pub(crate) const LAUNCHERS: [[&str; 3]; 3] = [
    ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"],
];

pub(crate) const JOBS: [&str; 2] = ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"];

impl Identity {
    /// The identity of this process; it does not change.
    pub(crate) fn of_process() -> &'static Self {
        static IDENTITY: Once<Identity> = Once::new();
        IDENTITY.get_or_init(|| Self::from(|name| std::env::var(name).ok()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
        let mut identity = Self::default();
        for [rank, local_rank, world_size] in LAUNCHERS {
            if let (Some(own), Some(size)) = (number(rank), number(world_size))
                && let local = number(local_rank).unwrap_or(own)
                && own.max(local) < size
            {
                identity.rank = Some(own);
                identity.local_rank = Some(local);
                identity.world_size = Some(size);
                break;
            }
        }
        let job = |name: &&str| variable(name).map(|job| job.trim().to_owned());
        identity.job_id = JOBS.iter().filter_map(job).find(|job| !job.is_empty());
        identity
    }
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
    fn what_is_not_named_or_makes_no_sense_is_left_out() {
        assert_eq!(identity(&[]), Identity::default());
        assert_eq!(identity(&[("WORLD_SIZE", "4")]), Identity::default());
        assert_eq!(identity(&[("RANK", "4"), ("WORLD_SIZE", "4")]), Identity::default());
        assert_eq!(identity(&[("RANK", "x"), ("WORLD_SIZE", "4")]), Identity::default());
        let local = [("RANK", "1"), ("LOCAL_RANK", "9"), ("WORLD_SIZE", "4")];
        assert_eq!(identity(&local), Identity::default());
    }
}
