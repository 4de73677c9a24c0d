//! The kinds of findings, with suggestions for each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use runlore_core::settings::nearest;
use runlore_core::{Error, ErrorKind, Result};

macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident = $text:literal, try $to_try:expr;)*) => {
        /// The kind of a [`Finding`](super::Finding).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])+ #[serde(rename = $text)] $name,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name of the kind, such as `persistent_drift`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Returns suggestions for what to try.
            pub(super) fn to_try(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &$to_try,)*
                }
            }
        }
    };
}

kinds! {
    /// Device memory that is always in use but unknown to the allocator.
    HiddenMemory = "hidden_memory", try [
        "compare with what the driver's own tool lists for the device: other processes count too",
        "a device context and its libraries take some hundred MiB for each process; fewer processes a device take less",
    ];
    /// Memory outside of the allocator that was in use for a short time.
    TransientSpike = "transient_spike", try [
        "look at what ran in that window: workspaces of libraries and buffers for communication are the usual causes",
        "bound the workspaces of the libraries that are used, or fix their algorithms instead of trying them out",
    ];
    /// Memory outside of the allocator that keeps growing.
    PersistentDrift = "persistent_drift", try [
        "look for allocations that pass the allocator by: hand-written kernels, other libraries, handles that stay open",
        "run for longer: if it levels off after the start it is a cost that is paid once",
    ];
    /// Memory outside of the allocator that was taken at one moment and kept.
    Step = "step", try [
        "look at what began at that moment: a library's start, a new communicator, another process on the device",
        "if it comes with every start and never grows, plan for it",
    ];
    /// Memory that the allocator holds but cannot hand out.
    Fragmentation = "fragmentation", try [
        "let the allocator use segments that can grow, or pieces of fewer sizes",
        "allocate what lives long first, and keep the sizes of batches the same",
    ];
    /// Allocated memory that is never freed.
    LeakSuspect = "leak_suspect", try [
        "look for what is kept from iteration to iteration: lists of results, caches without a bound, graphs held by a loss",
        "compare two heap or allocator snapshots from the beginning and the end of the window",
    ];
    /// A device whose memory is nearly full.
    HighUtilization = "high_utilization", try [
        "use smaller batches, recompute instead of keeping, or shard over more devices",
        "see which activity runs at the peak: `runlore tree --resources` tells what each used",
    ];
    /// Memory that is constantly allocated and freed.
    Churn = "churn", try [
        "allocate once and use it again: buffers, staging areas, outputs of fixed shape",
    ];
    /// Memory ran out.
    OutOfMemory = "oom", try [
        "look at the samples just before it, and at the rank that grew first",
        "use smaller batches, or give the allocator room by releasing what is cached",
    ];
    /// The rank whose memory grew before that of the others.
    FirstCause = "first_cause", try [
        "look at what this rank did just before: its data, its tasks, its host",
        "compare its timeline with that of another rank on the shared clock",
    ];
    /// Memory outside of the allocator that a collective operation took.
    Collective = "collective", try [
        "buffers of collectives are expected; if they are too large, bound them in the settings of the library",
    ];
    /// An activity that takes a large share of the run's time.
    SlowActivity = "slow_activity", try [
        "begin here: no other activity can give back as much",
    ];
    /// A task that took much longer than others of its activity.
    Outlier = "outlier", try [
        "compare its inputs and its telemetry with those of an ordinary one: `runlore show TASK`",
    ];
    /// Time during which tasks were ready or running, but did no work.
    Waiting = "waiting", try [
        "find out what it waits for: locks, disks, network, a queue that is too short, other processes on the machine",
    ];
    /// Recording that cost more than the settings allow.
    Overhead = "overhead", try [
        "set telemetry_capture.max_overhead_percent: captures beyond it are thinned, shared or left out",
        "a record alone costs about a microsecond: leave functions that are shorter than some ten without the attribute",
        "an explicit telemetry(…) on a function captures whatever that costs: say it for functions that run long",
    ];
    /// Time during which only one task ran although others could have.
    LowParallelism = "low_parallelism", try [
        "split the longest task on the critical path, or start it earlier",
    ];
    /// Memory of the process that grows from iteration to iteration.
    MemoryGrowth = "memory_growth", try [
        "look for what is kept from iteration to iteration: lists of results, caches without a bound",
        "track it while it runs, and look at the timeline: `runlore events analyze` tells a leak from a step",
    ];
    /// Iterations that waited for their data.
    DataLoading = "data_loading", try [
        "load ahead on other threads, and keep what is decoded",
        "move the data to a faster disk, or pack many small files into few",
    ];
    /// A GPU that was throttled.
    ThrottledGpu = "throttled_gpu", try [
        "look at its temperature and power: clean the cooling, raise the power limit, or spread the load",
    ];
    /// A container that used up its CPU quota.
    ThrottledCpu = "throttled_cpu", try [
        "raise the quota of the container, or use as many threads as it has processors",
    ];
    /// A machine or a container that has little memory left.
    MemoryPressure = "memory_pressure", try [
        "see what takes the memory: other processes count too; end them, or give the run a machine of its own",
        "raise the limit of the container, or use less at once",
    ];
    /// Memory that was swapped to disk and back.
    Swapping = "swapping", try [
        "use less memory at once, or give the machine more: a run that swaps is a run that waits",
    ];
    /// Processors that were held up by disks.
    IoPressure = "io_pressure", try [
        "read and write less often and more at once, or from a faster disk",
    ];
    /// Tasks that have no record.
    LostTasks = "lost_tasks", try [
        "look at what the run printed on standard error: a full disk, a store that was away, or a queue that was full",
        "set `recorder.when_full: block`: tasks then wait for room in the queue instead of being dropped",
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            let hint = nearest::suggestion(text, &names);
            Error::new(ErrorKind::Query, format!("there is no finding `{text}`; {hint}"))
        })
    }
}
