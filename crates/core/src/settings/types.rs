//! The settings as types: one struct per section, one field per key.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::file_mode::FileMode;
use super::section::{choice, section};
use super::setting::Setting as _;
use super::units::Bytes;

section! {
    /// All settings. The defaults are those of the documented `settings.yaml`.
    ///
    /// ```
    /// use runlore::settings::{Durability, Settings};
    ///
    /// let settings = Settings::default();
    /// assert!(settings.telemetry_capture.cpu);
    /// assert_eq!(settings.recorder.durability, Durability::Process);
    /// ```
    pub struct Settings {
        /// What is read from the machine when a task begins and when it ends.
        pub telemetry_capture: TelemetrySettings,
        /// What is kept of the calls of annotated functions.
        pub instrumentation: InstrumentationSettings,
        /// How records get from the program to its stores.
        pub recorder: RecorderSettings,
        /// Where records are stored.
        pub databases: DatabaseSettings,
        /// What records say of the machine, instead of what it says itself.
        pub sys_metadata: SystemSettings,
        /// Fields of your own, copied to each workflow's record.
        pub extra_metadata: Map<String, Value>,
        /// Who runs the program.
        pub experiment: ExperimentSettings,
    }
}

section! {
    /// `telemetry_capture`: the sensors that are read when a task begins and when it ends.
    pub struct TelemetrySettings {
        /// Time and load of all processors together.
        pub cpu: bool,
        /// The same for each processor.
        pub per_cpu: bool,
        /// The process: memory, time, files, threads.
        pub process_info: bool,
        /// Memory and swap of the machine.
        pub mem: bool,
        /// Disk space and transfers.
        pub disk: bool,
        /// Network transfers.
        pub network: bool,
        /// What the machine is, once a workflow.
        pub machine_info: bool,
        /// Metrics of the graphics processors; none turns them off.
        pub gpu: Vec<String>,
        /// Whose graphics processors.
        pub gpu_vendor: GpuVendor,
        /// The energy that the machine and its graphics processors use.
        pub energy: bool,
        /// Which source the values come from.
        pub backend: Backend,
        /// How old a reading may be to serve another task too.
        pub max_age: Duration,
        /// What recording may cost, as a share of the larger of the process's processor time and
        /// the time elapsed. Captures beyond it are thinned, shared or left out; none sets no
        /// bound.
        pub max_overhead_percent: Option<f64>,
        /// Environment variables to record: names, or patterns such as `SLURM_*`.
        pub environment: Vec<String>,
    }
}

choice! {
    /// The vendor whose graphics processors are read.
    pub enum GpuVendor {
        /// Any vendor whose library works. AMD is tried first.
        Auto = "auto",
        /// AMD.
        Amd = "amd",
        /// NVIDIA.
        Nvidia = "nvidia",
    }
}

choice! {
    /// The source of the telemetry values.
    pub enum Backend {
        /// The kernel's files on Linux, the portable source on other systems.
        Auto = "auto",
        /// The kernel's files.
        Linux = "linux",
        /// The portable source.
        Portable = "portable",
    }
}

section! {
    /// `instrumentation`: what is recorded of calls to annotated functions.
    pub struct InstrumentationSettings {
        /// Whether annotated functions are recorded at all.
        pub enabled: bool,
        /// Whether an annotated function outside any workflow starts one.
        pub implicit_workflow: bool,
        /// How much of a value is copied.
        pub limits: LimitSettings,
        /// How values are hashed.
        pub hash: HashKind,
        /// Which values are hidden. A list adds names.
        pub redact: RedactSettings,
        /// Whether SIGINT and SIGTERM end the run well, where the program does not handle them.
        pub signals: bool,
        /// Whether panics are recorded with where they came from.
        pub backtrace: bool,
        /// What is recorded of training loops and models.
        pub ml: MlSettings,
    }
}

section! {
    /// `instrumentation.redact`: the values that are hidden.
    pub struct RedactSettings {
        /// Names whose values are hidden, beside `password`, `token` and the like.
        pub names: Vec<String>,
        /// Names whose values stay visible, whatever the rules for names say.
        pub allow: Vec<String>,
    }
}

section! {
    /// `instrumentation.limits`: how much of a value is copied.
    pub struct LimitSettings {
        /// Bytes of one value.
        pub value_bytes: Bytes,
        /// Items of one collection.
        pub items: u32,
        /// Levels of nesting.
        pub depth: u32,
    }
}

choice! {
    /// The hash function for values.
    pub enum HashKind {
        /// XXH3, 128 bits. Fast, but not resistant to forgery.
        Xxh3 = "xxh3",
        /// BLAKE3. Slower, but nobody can construct another value with the same hash. Needs the
        /// feature `blake3`; without it XXH3 is used and a notice is printed.
        Blake3 = "blake3",
        /// Values are not hashed.
        None = "none",
    }
}

section! {
    /// `instrumentation.ml`: what is recorded of training loops and models. The keys are named as
    /// in Flowcept. Flowcept's name for the section, `torch`, is accepted too.
    pub struct MlSettings {
        /// Which modules of a model; none for no module.
        pub what: Option<ModelScope>,
        /// What is recorded of a forward pass and of the modules in it.
        pub children_mode: ChildrenMode,
        /// What is measured around epochs and around the pass of a whole model.
        pub parent_mode: ParentMode,
        /// How epochs are recorded; none for not at all.
        pub epoch_loop: Option<LoopMode>,
        /// How batches are recorded; none for not at all.
        pub batch_loop: Option<LoopMode>,
        /// Records every so many epochs, with all that is in them.
        pub capture_epochs_at_every: u32,
        /// Whether facts about tensors include what only their values tell: density, least,
        /// largest, mean, NaNs. The device is waited for.
        pub tensor_statistics: bool,
        /// Whether a model is recorded as a workflow of its own.
        pub register_workflow: bool,
    }
}

choice! {
    /// The modules of a model that are recorded.
    pub enum ModelScope {
        /// The model and the modules in it.
        ParentAndChildren = "parent_and_children",
        /// The model only.
        ParentOnly = "parent_only",
    }
}

choice! {
    /// What is recorded of a model's modules.
    pub enum ChildrenMode {
        /// Telemetry and facts about tensors.
        TelemetryAndTensorInspection = "telemetry_and_tensor_inspection",
        /// Telemetry only.
        Telemetry = "telemetry",
        /// Facts about tensors only.
        TensorInspection = "tensor_inspection",
        /// Only that the modules ran.
        Lightweight = "lightweight",
    }
}

choice! {
    /// What is measured around epochs and around the forward pass of a whole model.
    pub enum ParentMode {
        /// Telemetry at the beginning and at the end, regardless of `children_mode` and
        /// `epoch_loop`.
        Telemetry = "telemetry",
        /// Only what `children_mode` and `epoch_loop` ask for.
        Lightweight = "lightweight",
    }
}

choice! {
    /// How the iterations of a training loop are recorded.
    pub enum LoopMode {
        /// Without telemetry.
        Lightweight = "lightweight",
        /// Like any other task.
        Default = "default",
    }
}

section! {
    /// `recorder`: how records travel from the program to its stores.
    pub struct RecorderSettings {
        /// What survives when the process ends without a word.
        pub durability: Durability,
        /// The queue of one thread: a power of two.
        pub ring_bytes: Bytes,
        /// All queues together.
        pub budget_bytes: Bytes,
        /// What a task does when its queue is full.
        pub when_full: WhenFull,
        /// Bytes on disk for the events of full queues.
        pub overflow_bytes: Bytes,
        /// How long a task waits for room while nothing moves on; for a store that is writing, at least up to a second.
        pub max_wait_ms: Duration,
        /// Records are written when the oldest is this old …
        pub flush_ms: Duration,
        /// … or when there are this many.
        pub flush_records: u32,
        /// How long the end of a run waits, at most, for a store that is slow but gets on.
        pub finish_wait_ms: Duration,
        /// Bytes kept in memory while a store fails.
        pub backlog_bytes: Bytes,
        /// The folder for records that a store does not take; none for `.spool` in the store's own folder.
        pub spool: Option<PathBuf>,
        /// Bytes kept on disk for one store of one run.
        pub spool_bytes: Bytes,
        /// Permissions of new files of records, reports and exports, such as `"0640"`; folders can
        /// be entered by whoever may read them.
        pub file_mode: FileMode,
    }
}

choice! {
    /// Which records survive when the process ends abruptly.
    pub enum Durability {
        /// The records of ended tasks survive the end of the process, however it ends.
        Process = "process",
        /// They also survive a crash of the machine, except for the last moments.
        System = "system",
        /// Records stay in the process's memory until they are written.
        Memory = "memory",
    }
}

choice! {
    /// What a task does when its thread's queue is full.
    pub enum WhenFull {
        /// It appends to an overflow file of the session and continues at once.
        Spill = "spill",
        /// It waits a moment for free space. If there is none, it is not recorded, but counted as
        /// dropped.
        Block = "block",
        /// It is not recorded, but counted as dropped, without waiting.
        Drop = "drop",
    }
}

section! {
    /// `databases`: where records are stored. Several may be enabled at once.
    pub struct DatabaseSettings {
        /// Files of JSON lines.
        pub jsonl: JsonlSettings,
        /// An SQLite file.
        pub sqlite: SqliteSettings,
        /// A MongoDB server.
        pub mongodb: MongodbSettings,
    }
}

section! {
    /// `databases.jsonl`: files of JSON lines.
    pub struct JsonlSettings {
        /// Whether records go there.
        pub enabled: bool,
        /// The folder.
        pub path: PathBuf,
        /// A file that has grown to this size is followed by another; none for one file, however long.
        pub rotate_bytes: Option<Bytes>,
        /// A file that is this old is followed by another; none for one file, however old.
        pub rotate_age: Option<Duration>,
        /// The oldest files beyond this many are deleted; none keeps all.
        pub keep_files: Option<u32>,
        /// Files older than this many days are deleted; none keeps all.
        pub keep_days: Option<u32>,
        /// The oldest files are deleted while all together are larger; none keeps all.
        pub keep_bytes: Option<Bytes>,
    }
}

section! {
    /// `databases.sqlite`: an SQLite file.
    pub struct SqliteSettings {
        /// Whether records go there.
        pub enabled: bool,
        /// The file.
        pub path: PathBuf,
    }
}

section! {
    /// `databases.mongodb`: a MongoDB server.
    #[hides(uri)]
    pub struct MongodbSettings {
        /// Whether records go there.
        pub enabled: bool,
        /// The server as a connection string; `host` and `port` otherwise.
        pub uri: Option<String>,
        /// The server's name or address.
        pub host: String,
        /// The server's port.
        pub port: u16,
        /// The database's name.
        pub db: String,
        /// Who signs in; none for nobody.
        pub username: Option<String>,
        /// The environment variable that holds the password.
        pub password_env: Option<String>,
        /// Whether the connection is encrypted.
        pub tls: bool,
        /// A file of certificate authorities to trust instead of the system's.
        pub tls_ca_file: Option<PathBuf>,
        /// A file with the certificate and key of this client.
        pub tls_certificate_key_file: Option<PathBuf>,
        /// Whether missing indexes are made.
        pub create_collection_index: bool,
    }
}

section! {
    /// `sys_metadata`: values that replace what the machine reports about itself in records.
    pub struct SystemSettings {
        /// A name for the place the program runs in, such as that of a cluster.
        pub environment_id: Option<String>,
        /// The system's name.
        pub sys_name: Option<String>,
        /// The node's name.
        pub node_name: Option<String>,
        /// The name of who is logged in.
        pub login_name: Option<String>,
        /// The address the world sees.
        pub public_ip: Option<String>,
        /// The address inside the network.
        pub private_ip: Option<String>,
    }
}

section! {
    /// `experiment`: who runs the program.
    pub struct ExperimentSettings {
        /// The user's name; the one who is logged in otherwise.
        pub user: Option<String>,
    }
}

impl Settings {
    /// Returns every key with its path (`telemetry_capture.cpu`) and value, in the order of the
    /// documented file.
    ///
    /// ```
    /// let settings = runlore::settings::Settings::default();
    /// assert_eq!(settings.keys()[0], ("telemetry_capture.cpu".to_owned(), true.into()));
    /// ```
    pub fn keys(&self) -> Vec<(String, Value)> {
        let mut keys = Vec::new();
        self.each("", &mut |path, value| keys.push((path.to_owned(), value)));
        keys
    }
}

impl serde::Serialize for Settings {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(to)
    }
}
