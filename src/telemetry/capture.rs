//! Taking captures.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gpu::{Asked, GpuInfo, Gpus, Wanted};
use super::parts::Telemetry;
use super::snapshot::Snapshot;
use super::types::Types;
use super::{TelemetryType, snapshot};
use crate::settings::{Backend, TelemetrySettings};

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
    source: Source,
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

/// Where values come from.
#[derive(Debug, Clone)]
enum Source {
    /// The kernel's files: those of the process, or of a tree that somebody made.
    #[cfg(target_os = "linux")]
    Linux(Option<Arc<super::linux::Host>>),
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    Portable(Arc<super::portable::Host>),
    /// There is none of the kind that was asked for.
    #[cfg_attr(
        all(target_os = "linux", feature = "portable"),
        expect(dead_code, reason = "here there are both")
    )]
    None(&'static str),
}

impl TelemetryCapture {
    /// What the settings ask for, from where they ask for it.
    pub fn from_settings(settings: &TelemetrySettings) -> Self {
        let max_age_ns = u64::try_from(settings.max_age.as_nanos()).unwrap_or(u64::MAX);
        let options = Options { max_age_ns, ..Options::default() };
        let source = Source::choose(settings.backend);
        let gpus = Arc::new(Gpus::new(Asked::from_settings(settings)));
        Self::with(Types::from_settings(settings), options, source, gpus)
    }

    /// These types, from the best source of this system.
    pub fn new(types: Types) -> Self {
        let gpus = Arc::new(Gpus::new(Asked::default()));
        Self::with(types, Options::default(), Source::choose(Backend::Auto), gpus)
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

    fn with(types: Types, options: Options, source: Source, gpus: Arc<Gpus>) -> Self {
        let capture = Self { types, options, source, gpus };
        capture.take_base_line();
        capture
    }

    /// From files below this folder, as they would be below `/`.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn below(root: &std::path::Path, types: Types) -> Self {
        let host = super::linux::Host::new(root);
        let gpus = Arc::new(Gpus::new(Asked::default()));
        Self::with(types, Options::default(), Source::Linux(Some(Arc::new(host))), gpus)
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
        match &self.source {
            #[cfg(target_os = "linux")]
            Source::Linux(own) => match own {
                Some(host) => host.capture_into(types, self.options, &self.gpus, out),
                None => super::linux::of_process(std::process::id()).capture_into(
                    types,
                    self.options,
                    &self.gpus,
                    out,
                ),
            },
            #[cfg(any(not(target_os = "linux"), feature = "portable"))]
            Source::Portable(host) => {
                let max_age = Duration::from_nanos(self.options.max_age_ns);
                let ticket = self.gpus.ask(Wanted::of(types), max_age);
                let mut telemetry = host.capture(types, max_age);
                if !Wanted::of(types).is_nothing() {
                    add_gpus(types, &mut telemetry, &self.gpus.take(&ticket));
                }
                snapshot::put(types, &telemetry, out);
            }
            Source::None(reason) => {
                let unavailable = types.iter().map(|one| (part_of(one), (*reason).to_owned()));
                let mut named = super::Named::default();
                for (part, reason) in unavailable {
                    if named.get(part).is_none() {
                        named.push(part, reason);
                    }
                }
                let telemetry = Telemetry { unavailable: named, ..Telemetry::default() };
                snapshot::put(types, &telemetry, out);
            }
        }
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
        match &self.source {
            #[cfg(target_os = "linux")]
            Source::Linux(own) => match own {
                Some(host) => host.take_base_line(self.types),
                None => super::linux::of_process(std::process::id()).take_base_line(self.types),
            },
            #[cfg(any(not(target_os = "linux"), feature = "portable"))]
            Source::Portable(host) => host.take_base_line(self.types),
            Source::None(_) => {}
        }
    }

    /// How long it takes after the first capture until percentages can be told.
    pub(super) fn watching_time(&self) -> Duration {
        match &self.source {
            #[cfg(any(not(target_os = "linux"), feature = "portable"))]
            Source::Portable(_) => super::portable::WATCHING_TIME,
            // A tick of the kernel's clock, and a little more.
            _ => Duration::from_millis(11),
        }
    }

    /// Where a group of fields comes from, by its name on Linux, and what one reading of that costs.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "it is one source"))]
    pub(super) fn source_of(&self, name: &'static str) -> (String, Option<Duration>) {
        match &self.source {
            #[cfg(target_os = "linux")]
            Source::Linux(own) => match own {
                Some(host) => host.source_of(name),
                None => super::linux::of_process(std::process::id()).source_of(name),
            },
            #[cfg(any(not(target_os = "linux"), feature = "portable"))]
            Source::Portable(_) => ("sysinfo".to_owned(), None),
            Source::None(_) => ("none".to_owned(), None),
        }
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
        let mut fresh = self.clone();
        fresh.options.max_age_ns = 0;
        let mut bytes = Vec::new();
        let mut cost = |one: TelemetryType| {
            let mut times = [(); 5].map(|()| {
                bytes.clear();
                let before = Instant::now();
                fresh.capture_into(Types::from([one]), &mut bytes);
                before.elapsed()
            });
            times.sort_unstable();
            (one, times[2])
        };
        self.types.iter().map(&mut cost).collect()
    }
}

impl Source {
    fn choose(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::best(),
            #[cfg(target_os = "linux")]
            Backend::Linux => Self::Linux(None),
            #[cfg(not(target_os = "linux"))]
            Backend::Linux => Self::None(
                "telemetry_capture.backend is `linux`, but this is another system: set it to `auto`",
            ),
            Backend::Portable => Self::portable(),
        }
    }

    #[cfg(target_os = "linux")]
    fn best() -> Self {
        Self::Linux(None)
    }

    #[cfg(not(target_os = "linux"))]
    fn best() -> Self {
        Self::portable()
    }

    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    fn portable() -> Self {
        Self::Portable(Arc::new(super::portable::Host::new()))
    }

    #[cfg(not(any(not(target_os = "linux"), feature = "portable")))]
    fn portable() -> Self {
        Self::None(
            "telemetry_capture.backend is `portable`: build with the feature `portable`, or set it to `auto`",
        )
    }
}

/// Adds what the graphics processors said: all there is of energy where the machine's own meters are not read.
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
fn add_gpus(types: Types, telemetry: &mut Telemetry, answer: &super::gpu::Answer) {
    let missing = &mut telemetry.unavailable;
    match answer {
        Ok(reading) => {
            telemetry.gpu = serde_json::from_slice(&reading.metrics).ok();
            let joules = reading.energy.iter();
            let joules = joules.map(|(meter, used)| (meter.as_str(), *used as f64 / 1e6));
            let joules: super::Named<f64> = joules.collect();
            telemetry.energy = (!joules.is_empty()).then_some(super::Energy { joules });
            for (field, reason) in &reading.missing {
                missing.push(field.clone(), reason.clone());
            }
        }
        Err(absent) if types.contains(TelemetryType::Gpu) => {
            missing.push("gpu", absent.reason().to_owned());
        }
        Err(_) => {}
    }
    if types.contains(TelemetryType::Energy) {
        let reason = "sysinfo, the portable source, knows no meters of the machine itself";
        missing.push("energy", reason.to_owned());
    }
}

/// The part of [`Telemetry`] that a type fills.
pub(crate) fn part_of(one: TelemetryType) -> &'static str {
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
        let source = match &self.source {
            #[cfg(target_os = "linux")]
            Source::Linux(_) => "linux",
            #[cfg(any(not(target_os = "linux"), feature = "portable"))]
            Source::Portable(_) => "portable",
            Source::None(_) => "none",
        };
        f.debug_struct("TelemetryCapture")
            .field("types", &self.types)
            .field("source", &source)
            .finish_non_exhaustive()
    }
}
