//! The position of a process in a distributed job.

use serde_json::{Map, Value};

use super::fields::{given, integer, text, unsigned};
use super::invalid::{Invalid, Reason};
use super::python;
use runlore_core::identity;
use runlore_core::identity::{JOBS, LAUNCHERS};

/// The job and the ranks of a process. Every event carries them.
///
/// ```
/// use runlore::events::Identity;
/// use serde_json::json;
///
/// let metadata = json!({"rank": 1, "world_size": 4});
/// let slurm = |name: &str| (name == "SLURM_JOB_ID").then(|| "17".to_owned());
/// let identity = Identity::resolve(&json!({}), &metadata, slurm)?;
/// assert_eq!((identity.rank, identity.local_rank, identity.world_size), (1, 1, 4));
/// assert_eq!(identity.job_id.as_deref(), Some("17"));
/// # Ok::<(), runlore::events::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The id of the job.
    pub job_id: Option<String>,
    /// The rank of the process in its job.
    pub rank: u64,
    /// The rank of the process on its machine.
    pub local_rank: u64,
    /// The number of processes in the job.
    pub world_size: u64,
}

/// A single process without a job.
impl Default for Identity {
    fn default() -> Self {
        Self { job_id: None, rank: 0, local_rank: 0, world_size: 1 }
    }
}

/// The four values before validation. Each may still have any type.
#[derive(Default)]
struct Raw {
    job_id: Option<Value>,
    rank: Option<Value>,
    local_rank: Option<Value>,
    world_size: Option<Value>,
}

impl Identity {
    /// Resolves each value from the first place that has it: `explicit`, `metadata`, then the
    /// environment of torchrun, Open MPI or Slurm. Of these launchers, the first with both a rank
    /// and a size is used. Missing values get their defaults.
    ///
    /// # Errors
    ///
    /// If a value has the wrong type, or a rank is not below the size.
    pub fn resolve(
        explicit: &Value,
        metadata: &Value,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        let nothing = Map::new();
        let explicit = explicit.as_object().unwrap_or(&nothing);
        let metadata = metadata.as_object().unwrap_or(&nothing);
        Self::from_maps(explicit, metadata, environment)
    }

    /// Returns the identity of this process.
    ///
    /// # Errors
    ///
    /// If the environment contains invalid values.
    pub fn of_process() -> Result<Self, Invalid> {
        Self::from_maps(&Map::new(), &Map::new(), |name| std::env::var(name).ok())
    }

    /// Returns the identity that task records use. A launcher with invalid numbers is ignored; the
    /// second value then describes the problem.
    pub(crate) fn as_tasks_tell() -> (Self, Option<&'static str>) {
        let found = identity::Identity::of_process();
        let rank = found.rank.unwrap_or(0);
        let identity = Self {
            job_id: found.job_id.clone(),
            rank,
            local_rank: found.local_rank.unwrap_or(rank),
            world_size: found.world_size.unwrap_or(1),
        };
        (identity, found.problem.as_deref())
    }

    pub(super) fn from_maps(
        explicit: &Map<String, Value>,
        metadata: &Map<String, Value>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        let said = |field: &str| given(explicit, field).or_else(|| given(metadata, field)).cloned();
        let mut raw = Raw {
            job_id: said("job_id"),
            rank: said("rank"),
            local_rank: said("local_rank"),
            world_size: said("world_size"),
        };
        // If all three are known, errors in the launcher's variables do not matter.
        if raw.rank.is_none() || raw.local_rank.is_none() || raw.world_size.is_none() {
            raw.fill_from(&environment)?;
        }
        let job =
            || JOBS.iter().filter_map(|name| environment(name)).find_map(|text| job_name(&text));
        raw.job_id = raw.job_id.or_else(job);
        raw.checked()
    }
}

fn job_name(text: &str) -> Option<Value> {
    let name = python::strip(text);
    (!name.is_empty()).then(|| name.into())
}

impl Raw {
    fn fill_from(&mut self, environment: &impl Fn(&str) -> Option<String>) -> Result<(), Invalid> {
        for [rank, local_rank, world_size] in LAUNCHERS {
            let (Some(rank), Some(size)) = (environment(rank), environment(world_size)) else {
                continue;
            };
            let local = environment(local_rank).filter(|local| !python::is_blank(local));
            let number = |text: &str, field| {
                python::int(text).ok_or_else(|| Invalid::new(field, Reason::NotAnInteger))
            };
            let own = number(&rank, "rank")?;
            let local = local.map_or(Ok(own), |local| number(&local, "local_rank"))?;
            let size = number(&size, "world_size")?;
            let own = unsigned(own, "rank", Reason::Below(0))?;
            let local = unsigned(local, "local_rank", Reason::Below(0))?;
            let size = at_least_one(size)?;
            self.rank.get_or_insert_with(|| own.into());
            self.local_rank.get_or_insert_with(|| local.into());
            self.world_size.get_or_insert_with(|| size.into());
            break;
        }
        Ok(())
    }

    fn checked(self) -> Result<Identity, Invalid> {
        let rank = self.rank.unwrap_or_else(|| 0.into());
        let local_rank = self.local_rank.unwrap_or_else(|| rank.clone());
        let job_id = self.job_id.map(|job| text(Some(&job), "job_id")).transpose()?;
        let unsigned =
            |value: &Value, field| unsigned(integer(Some(value), field)?, field, Reason::Below(0));
        let rank = unsigned(&rank, "rank")?;
        let local_rank = unsigned(&local_rank, "local_rank")?;
        let world_size = match &self.world_size {
            Some(size) => at_least_one(integer(Some(size), "world_size")?)?,
            None => 1,
        };
        check_ranks(rank, local_rank, world_size)?;
        Ok(Identity { job_id, rank, local_rank, world_size })
    }
}

/// Checks that ranks are below the size of the job.
pub(super) fn check_ranks(rank: u64, local_rank: u64, world_size: u64) -> Result<(), Invalid> {
    for (field, rank) in [("rank", rank), ("local_rank", local_rank)] {
        if rank >= world_size {
            return Err(Invalid::new(field, Reason::NotBelowWorldSize));
        }
    }
    Ok(())
}

pub(super) fn at_least_one(size: i128) -> Result<u64, Invalid> {
    match u64::try_from(size) {
        Ok(1..) => Ok(size as u64),
        _ if size > 0 => Err(Invalid::new("world_size", Reason::TooLarge)),
        _ => Err(Invalid::new("world_size", Reason::Below(1))),
    }
}
