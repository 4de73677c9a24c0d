//! [`TelemetryCapture`], which takes captures.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::gpu::{Asked, GpuInfo, Gpus, Wanted};
use super::parts::Telemetry;
use super::snapshot::Snapshot;
use super::source::{self, Source};
use super::types::Types;
use super::{TelemetryType, cost};
use runlore_core::config::settings;
use runlore_core::settings::{Backend, TelemetrySettings};

/// Reads what the machine and this process are doing.
///
/// ```
/// use runlore::telemetry::TelemetryCapture;
///
/// let capture = TelemetryCapture::from_settings();
/// let now = capture.capture();
/// if let Some(memory) = now.memory.as_ref().and_then(|memory| memory.r#virtual.as_ref()) {
///     println!("{} % of the memory is in use", memory.percent);
/// }
/// for (field, reason) in &now.unavailable {
///     println!("{field} is missing: {reason}");
/// }
/// println!("{}", serde_json::to_string(&now)?); // what tasks store
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Percentages cover the time since an earlier capture of this process that is at least 10 ms old,
/// whichever thread took it. Creating a `TelemetryCapture` takes a first sample for them. Captures
/// never fail: a value that cannot be read is missing, and [`Telemetry::unavailable`] has the
/// reason.
#[derive(Clone)]
pub struct TelemetryCapture {
    types: Types,
    options: Options,
    source: Arc<dyn Source>,
    gpus: Arc<Gpus>,
}

/// How captures are taken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options {
    /// How old a capture may be to be reused for another task.
    pub(super) max_age_ns: u64,
    /// Whether to list `loop` and `ram` devices that never had a transfer.
    pub(super) idle_devices: bool,
}

impl TelemetryCapture {
    /// Creates a capture with the types and the backend that the settings of this process select.
    /// It captures what tasks capture by default.
    pub fn from_settings() -> Self {
        Self::configured(&settings().telemetry_capture)
    }

    /// Creates a capture with the types and the backend that other settings select.
    pub fn configured(settings: &TelemetrySettings) -> Self {
        let max_age_ns = u64::try_from(settings.max_age.as_nanos()).unwrap_or(u64::MAX);
        let options = Options { max_age_ns, ..Options::default() };
        let source = source::choose(settings.backend);
        let gpus = Arc::new(Gpus::new(Asked::from_settings(settings)));
        Self::with(Types::from_settings(settings), options, source, gpus)
    }

    /// Creates a capture of these types, with the best backend for this system.
    pub fn new(types: Types) -> Self {
        let gpus = Arc::new(Gpus::new(Asked::default()));
        Self::with(types, Options::default(), source::choose(Backend::Auto), gpus)
    }

    /// Replaces the types and keeps everything else.
    ///
    /// ```
    /// use runlore::telemetry::{TelemetryCapture, Types};
    ///
    /// let capture = TelemetryCapture::from_settings();
    /// assert_eq!(capture.with_types(Types::every()).types(), Types::every());
    /// ```
    #[must_use]
    pub fn with_types(self, types: Types) -> Self {
        Self::with(types, self.options, self.source, self.gpus)
    }

    /// Also lists `loop` and `ram` devices that never had a transfer.
    #[must_use]
    pub fn with_idle_devices(mut self) -> Self {
        self.options.idle_devices = true;
        self
    }

    fn with(types: Types, options: Options, source: Arc<dyn Source>, gpus: Arc<Gpus>) -> Self {
        let capture = Self { types, options, source, gpus };
        capture.take_base_line();
        capture
    }

    /// Creates a capture that reads the files below `root` instead of those below `/`.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn below(root: &std::path::Path, types: Types) -> Self {
        let source = Arc::new(super::linux::Kernel::below(root));
        let gpus = Arc::new(Gpus::new(Asked::default()));
        Self::with(types, Options::default(), source, gpus)
    }

    /// Returns the types that [`capture`](Self::capture) reads. A task may select others.
    pub fn types(&self) -> Types {
        self.types
    }

    /// Takes a capture of the types that [`types`](Self::types) returns.
    pub fn capture(&self) -> Telemetry {
        let mut bytes = Vec::with_capacity(1024);
        self.capture_into(self.types, &mut bytes);
        Snapshot(&bytes).decode().unwrap_or_default()
    }

    /// Appends a [`Snapshot`] of these types.
    pub fn capture_into(&self, types: Types, out: &mut Vec<u8>) {
        self.source.capture_into(types, self.options, &self.gpus, out);
    }

    pub(super) fn gpus(&self) -> &Gpus {
        &self.gpus
    }

    /// Returns a description of the GPUs. It waits for the driver, but at most for `patience`.
    ///
    /// The driver is queried once per `TelemetryCapture`, on the thread that reads the GPUs.
    ///
    /// # Errors
    ///
    /// Returns the reason, as a sentence, if the GPUs are not known or the driver does not answer
    /// in time.
    pub fn gpu_info(&self, patience: Duration) -> Result<GpuInfo, String> {
        let info = self.gpus.info(patience);
        info.map(|info| (*info).clone()).map_err(|absent| absent.reason().to_owned())
    }

    fn take_base_line(&self) {
        // The drivers take longer to start than anything else.
        self.gpus.ask(Wanted::of(self.types), Duration::ZERO);
        self.source.take_base_line(self.types);
    }

    /// The time after the first capture from which on percentages are available.
    pub(super) fn watching_time(&self) -> Duration {
        self.source.watching_time()
    }

    /// Returns the actual source of a group of fields, and the cost of reading it once. `name` is
    /// the source's name on Linux.
    pub(super) fn source_of(&self, name: &str) -> (String, Option<Duration>) {
        self.source.source_of(name)
    }

    /// Measures what a capture of each type costs on this machine.
    ///
    /// ```
    /// use runlore::telemetry::{TelemetryCapture, Types};
    ///
    /// for (one, cost) in TelemetryCapture::new(Types::host()).costs() {
    ///     println!("{one:?}: {cost:?}");
    /// }
    /// ```
    pub fn costs(&self) -> Vec<(TelemetryType, Duration)> {
        self.types.iter().map(|one| (one, self.cost_of(Types::from([one])))).collect()
    }

    /// Measures what a capture of these types costs on this machine.
    ///
    /// ```
    /// use runlore::telemetry::{TelemetryCapture, Types};
    ///
    /// println!("{:?}", TelemetryCapture::new(Types::host()).cost_of(Types::host()));
    /// ```
    pub fn cost_of(&self, types: Types) -> Duration {
        let mut fresh = self.clone();
        // A shared capture would seem to cost nothing.
        fresh.options.max_age_ns = 0;
        let mut bytes = Vec::new();
        cost::of(|| {
            bytes.clear();
            fresh.capture_into(types, &mut bytes);
        })
    }
}

/// Returns the name of the part of [`Telemetry`] that this type fills.
pub fn part_of(one: TelemetryType) -> &'static str {
    match one {
        TelemetryType::Cpu | TelemetryType::PerCpu => "cpu",
        TelemetryType::ProcessInfo => "process",
        TelemetryType::Mem => "memory",
        TelemetryType::Disk => "disk",
        TelemetryType::Network => "network",
        TelemetryType::Gpu => "gpu",
        TelemetryType::Energy => "energy",
    }
}

impl fmt::Debug for TelemetryCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryCapture")
            .field("types", &self.types)
            .field("source", &self.source.name())
            .finish_non_exhaustive()
    }
}
