//! Taking captures.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::gpu::{Asked, GpuInfo, Gpus, Wanted};
use super::parts::Telemetry;
use super::snapshot::Snapshot;
use super::source::{self, Source};
use super::types::Types;
use super::{TelemetryType, cost};
use runlore_core::settings::{Backend, TelemetrySettings};

/// Reads what the machine and this process are doing.
///
/// ```
/// use runlore::settings::Settings;
/// use runlore::telemetry::TelemetryCapture;
///
/// let capture = TelemetryCapture::from_settings(&Settings::default().telemetry_capture);
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
/// Percentages are over the time since an earlier capture of this process, by whichever thread, that is at least 10 ms old.
/// A first one is taken when this is made. Captures never fail: what cannot be read is missing, with the reason in
/// [`Telemetry::unavailable`].
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
    /// How old a capture may be that serves another task too.
    pub(super) max_age_ns: u64,
    /// Whether `loop` and `ram` devices that never did anything are listed too.
    pub(super) idle_devices: bool,
}

impl TelemetryCapture {
    /// What the settings ask for, from where they ask for it.
    pub fn from_settings(settings: &TelemetrySettings) -> Self {
        let max_age_ns = u64::try_from(settings.max_age.as_nanos()).unwrap_or(u64::MAX);
        let options = Options { max_age_ns, ..Options::default() };
        let source = source::choose(settings.backend);
        let gpus = Arc::new(Gpus::new(Asked::from_settings(settings)));
        Self::with(Types::from_settings(settings), options, source, gpus)
    }

    /// These types, from the best source of this system.
    pub fn new(types: Types) -> Self {
        let gpus = Arc::new(Gpus::new(Asked::default()));
        Self::with(types, Options::default(), source::choose(Backend::Auto), gpus)
    }

    /// These types instead, otherwise as before.
    ///
    /// ```
    /// use runlore::settings::Settings;
    /// use runlore::telemetry::{TelemetryCapture, Types};
    ///
    /// let capture = TelemetryCapture::from_settings(&Settings::default().telemetry_capture);
    /// assert_eq!(capture.with_types(Types::every()).types(), Types::every());
    /// ```
    #[must_use]
    pub fn with_types(self, types: Types) -> Self {
        Self::with(types, self.options, self.source, self.gpus)
    }

    /// Lists disks of the kinds `loop` and `ram` too that never did anything.
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

    /// From files below this folder, as they would be below `/`.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn below(root: &std::path::Path, types: Types) -> Self {
        let source = Arc::new(super::linux::Kernel::below(root));
        let gpus = Arc::new(Gpus::new(Asked::default()));
        Self::with(types, Options::default(), source, gpus)
    }

    /// What the settings ask for; a task may ask for something else.
    pub fn types(&self) -> Types {
        self.types
    }

    /// Captures what the settings ask for.
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

    /// What the graphics processors are, as soon as their driver tells; why that is not known, after this time at the
    /// latest. They are asked once in the life of a capture, on the thread that reads them.
    ///
    /// # Errors
    ///
    /// The reason, in a sentence.
    pub fn gpu_info(&self, patience: Duration) -> Result<GpuInfo, String> {
        let info = self.gpus.info(patience);
        info.map(|info| (*info).clone()).map_err(|absent| absent.reason().to_owned())
    }

    fn take_base_line(&self) {
        // The drivers begin to answer later than anything else.
        self.gpus.ask(Wanted::of(self.types), Duration::ZERO);
        self.source.take_base_line(self.types);
    }

    /// How long it takes after the first capture until percentages can be told.
    pub(super) fn watching_time(&self) -> Duration {
        self.source.watching_time()
    }

    /// Where a group of fields comes from, by its name on Linux, and what one reading of that costs.
    pub(super) fn source_of(&self, name: &str) -> (String, Option<Duration>) {
        self.source.source_of(name)
    }

    /// What a capture of each type costs here, measured now.
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

    /// What a capture of these types costs here, measured now.
    ///
    /// ```
    /// use runlore::telemetry::{TelemetryCapture, Types};
    ///
    /// println!("{:?}", TelemetryCapture::new(Types::host()).cost_of(Types::host()));
    /// ```
    pub fn cost_of(&self, types: Types) -> Duration {
        let mut fresh = self.clone();
        // A reading that another one took would seem to cost nothing.
        fresh.options.max_age_ns = 0;
        let mut bytes = Vec::new();
        cost::of(|| {
            bytes.clear();
            fresh.capture_into(types, &mut bytes);
        })
    }
}

/// The part of [`Telemetry`] that a type fills.
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
