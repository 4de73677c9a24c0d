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
        /// The sensors that are read when a task begins and when it ends.
        pub telemetry_capture: TelemetrySettings,
        /// What is recorded of calls to annotated functions.
        pub instrumentation: InstrumentationSettings,
        /// How records travel from the program to its stores.
        pub recorder: RecorderSettings,
        /// Where records are stored.
        pub databases: DatabaseSettings,
        /// Values that replace what the machine reports about itself in records.
        pub sys_metadata: SystemSettings,
        /// Your own fields, copied to the record of each workflow.
        pub extra_metadata: Map<String, Value>,
        /// Who runs the program.
        pub experiment: ExperimentSettings,
    }
}

section! {
    /// `telemetry_capture`: the sensors that are read when a task begins and when it ends.
    pub struct TelemetrySettings {
        /// CPU time and load of the machine.
        pub cpu: bool,
        /// CPU time and load of each processor.
        pub per_cpu: bool,
        /// The process: memory, CPU time, open files, threads.
        pub process_info: bool,
        /// Memory and swap space of the machine.
        pub mem: bool,
        /// Disk space, and bytes read and written.
        pub disk: bool,
        /// Bytes sent and received over the network.
        pub network: bool,
        /// A description of the machine, once per workflow.
        pub machine_info: bool,
        /// The GPU metrics to read. Empty turns them off.
        pub gpu: Vec<String>,
        /// The vendor whose GPUs are read.
        pub gpu_vendor: GpuVendor,
        /// The energy that the machine and its GPUs use.
        pub energy: bool,
        /// The source of the values.
        pub backend: Backend,
        /// The maximum age of a reading that another task may reuse.
        pub max_age: Duration,
        /// The maximum overhead of recording, in percent of the process's CPU time or of the
        /// elapsed time, whichever is larger. Above it, captures read fewer sensors, are shared
        /// between tasks, or are left out. `~` removes the limit.
        pub max_overhead_percent: Option<f64>,
        /// Environment variables to record, by name or by a pattern such as `SLURM_*`.
        pub environment: Vec<String>,
    }
}

choice! {
    /// The vendor whose GPUs are read.
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
        /// The kernel's files on Linux, and the portable source on other systems.
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
        /// How much of each value is copied.
        pub limits: LimitSettings,
        /// The hash function for values.
        pub hash: HashKind,
        /// Which values are redacted. A list adds names.
        pub redact: RedactSettings,
        /// Whether SIGINT and SIGTERM finish the run, unless the program handles them itself.
        pub signals: bool,
        /// Whether panics are recorded with a backtrace.
        pub backtrace: bool,
        /// What is recorded of training loops and models.
        pub ml: MlSettings,
    }
}

section! {
    /// `instrumentation.redact`: which values are redacted.
    pub struct RedactSettings {
        /// Names whose values are redacted, in addition to `password`, `token` and similar names.
        pub names: Vec<String>,
        /// Names whose values stay visible, even if a rule for names matches them.
        pub allow: Vec<String>,
    }
}

section! {
    /// `instrumentation.limits`: how much of each value is copied.
    pub struct LimitSettings {
        /// Maximum size of one value in bytes.
        pub value_bytes: Bytes,
        /// Maximum number of items of one collection.
        pub items: u32,
        /// Maximum nesting depth.
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
        /// Which modules of a model are recorded. `~` records none.
        pub what: Option<ModelScope>,
        /// What is recorded of a forward pass and of the modules in it.
        pub children_mode: ChildrenMode,
        /// What is measured around epochs and around the pass of a whole model.
        pub parent_mode: ParentMode,
        /// How epochs are recorded. `~` leaves them out.
        pub epoch_loop: Option<LoopMode>,
        /// How batches are recorded. `~` leaves them out.
        pub batch_loop: Option<LoopMode>,
        /// Records every n-th epoch with everything in it.
        pub capture_epochs_at_every: u32,
        /// Whether facts about tensors include statistics of their values: density, minimum,
        /// maximum, mean, number of NaNs. Reading them waits for the device.
        pub tensor_statistics: bool,
        /// Whether each model is recorded as a workflow of its own.
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
        /// Which records survive when the process ends abruptly.
        pub durability: Durability,
        /// The size of each thread's queue, a power of two.
        pub ring_bytes: Bytes,
        /// The maximum size of all queues together.
        pub budget_bytes: Bytes,
        /// What a task does when its queue is full.
        pub when_full: WhenFull,
        /// The maximum size of the overflow file, which takes the events of full queues.
        pub overflow_bytes: Bytes,
        /// How long a task waits for space in its queue while the writer makes no progress. While a
        /// store is writing, a task waits up to a second.
        pub max_wait_ms: Duration,
        /// Records are written when the oldest one has this age.
        pub flush_ms: Duration,
        /// Records are written when there are this many.
        pub flush_records: u32,
        /// How long the end of a run waits at most for a store that is slow but makes progress.
        pub finish_wait_ms: Duration,
        /// The maximum size of the records kept in memory while a store fails.
        pub backlog_bytes: Bytes,
        /// The folder for records that a store does not accept. `~` stands for `.spool` in the
        /// store's own folder.
        pub spool: Option<PathBuf>,
        /// The maximum size of the spool on disk, for each store of a run.
        pub spool_bytes: Bytes,
        /// The permissions of new files of records, reports and exports, such as `"0640"`. A user
        /// who may read these files may also enter their folder.
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
        /// JSON Lines files.
        pub jsonl: JsonlSettings,
        /// An SQLite file.
        pub sqlite: SqliteSettings,
        /// A MongoDB server.
        pub mongodb: MongodbSettings,
    }
}

section! {
    /// `databases.jsonl`: JSON Lines files.
    pub struct JsonlSettings {
        /// Whether records are stored there.
        pub enabled: bool,
        /// The folder of the files.
        pub path: PathBuf,
        /// A new file begins when the current one reaches this size. `~` sets no limit.
        pub rotate_bytes: Option<Bytes>,
        /// A new file begins when the current one reaches this age. `~` sets no limit.
        pub rotate_age: Option<Duration>,
        /// How many files to keep. Older ones are deleted. `~` keeps all.
        pub keep_files: Option<u32>,
        /// Files older than this many days are deleted. `~` keeps all.
        pub keep_days: Option<u32>,
        /// The oldest files are deleted while all files together exceed this size. `~` keeps all.
        pub keep_bytes: Option<Bytes>,
    }
}

section! {
    /// `databases.sqlite`: an SQLite file.
    pub struct SqliteSettings {
        /// Whether records are stored there.
        pub enabled: bool,
        /// The path of the file.
        pub path: PathBuf,
    }
}

section! {
    /// `databases.mongodb`: a MongoDB server.
    #[hides(uri)]
    pub struct MongodbSettings {
        /// Whether records are stored there.
        pub enabled: bool,
        /// The connection string. Without it, `host` and `port` are used.
        pub uri: Option<String>,
        /// The server's name or address.
        pub host: String,
        /// The server's port.
        pub port: u16,
        /// The database's name.
        pub db: String,
        /// The user name. `~` connects without signing in.
        pub username: Option<String>,
        /// The environment variable that holds the password.
        pub password_env: Option<String>,
        /// Whether the connection is encrypted.
        pub tls: bool,
        /// A file with the certificate authorities to trust instead of the system's.
        pub tls_ca_file: Option<PathBuf>,
        /// A file with this client's certificate and key.
        pub tls_certificate_key_file: Option<PathBuf>,
        /// Whether missing indexes are created.
        pub create_collection_index: bool,
    }
}

section! {
    /// `sys_metadata`: values that replace what the machine reports about itself in records.
    pub struct SystemSettings {
        /// A name for the environment, such as the name of a cluster.
        pub environment_id: Option<String>,
        /// The name of the operating system.
        pub sys_name: Option<String>,
        /// The name of the node.
        pub node_name: Option<String>,
        /// The login name of the user.
        pub login_name: Option<String>,
        /// The public IP address.
        pub public_ip: Option<String>,
        /// The private IP address.
        pub private_ip: Option<String>,
    }
}

section! {
    /// `experiment`: who runs the program.
    pub struct ExperimentSettings {
        /// The name of the user. `~` stands for the login name.
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
