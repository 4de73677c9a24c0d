//! Workflows: the runs that tasks belong to, from start to end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use serde_json::{Map, Value};

use super::error::panic_message;
use super::failure::Failure;
use super::panics::{self, Since};
use super::{budget, machine, meter, push_failure, push_failure_of};
use crate::pipeline;
use crate::pipeline::event::{ItemKind, Items};
use crate::pipeline::{Ending, RunEnd, RunSpec, RunValues, Totals, overhead};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::context;
use runlore_core::context::{Active, Context, FutureExt as _, Inherited, Number};
use runlore_core::fork::{PerProcess, generation};
use runlore_core::identity::Identity;
use runlore_core::notice::notice;
use runlore_core::record::{
    Encoder, ErrorObject, Id, Limits, Secrecy, Status, ValueView, WorkflowObject, redact,
};
use runlore_core::settings::Settings;
use runlore_core::store;
use runlore_core::store::{RunInfo, Store, StoreChoice};
use runlore_core::{Result, clock, host};
use runlore_telemetry::TelemetryChoice;

/// Creates a workflow. Tasks are recorded while one runs.
///
/// ```no_run
/// let run = runlore::workflow("train").description("a first try").used("epochs", 3).start()?;
/// // … annotated functions …
/// run.finish()?;
/// # Ok::<(), runlore::Error>(())
/// ```
///
/// Records go to the stores set with [`store`](WorkflowBuilder::store). Without any, they go to the
/// stores in `RUNLORE_STORE`, one URI per line; without that, to the stores that the settings
/// enable. The default is the folder `./runlore`.
pub fn workflow(name: impl Into<String>) -> WorkflowBuilder {
    WorkflowBuilder { name: redact::scrub(&name.into()), ..WorkflowBuilder::default() }
}

/// A workflow that has not started. Created by [`workflow`].
#[derive(Debug, Default)]
#[must_use = "a workflow starts with `start` or `run`"]
pub struct WorkflowBuilder {
    name: String,
    id: Option<String>,
    campaign: Option<String>,
    description: Option<String>,
    subtype: Option<String>,
    user: Option<String>,
    used: Map<String, Value>,
    metadata: Map<String, Value>,
    stores: Vec<StoreChoice>,
    telemetry: Option<TelemetryChoice>,
    without_catalogue: bool,
}

impl WorkflowBuilder {
    /// Sets the workflow's id, which must be unique in its store. The default is a new UUID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets a campaign that several workflows share.
    pub fn campaign(mut self, campaign: impl Into<String>) -> Self {
        self.campaign = Some(redact::scrub(&campaign.into()));
        self
    }

    /// Sets a description of the workflow's purpose.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(redact::scrub(&description.into()));
        self
    }

    /// Sets the kind of workflow.
    pub fn subtype(mut self, subtype: impl Into<String>) -> Self {
        self.subtype = Some(redact::scrub(&subtype.into()));
        self
    }

    /// Sets the user. The default is the current user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(redact::scrub(&user.into()));
        self
    }

    /// Adds an input of the workflow.
    pub fn used(mut self, name: &str, value: impl Serialize) -> Self {
        insert(&mut self.used, name, &value);
        self
    }

    /// Adds a field to `custom_metadata`.
    pub fn metadata(mut self, name: &str, value: impl Serialize) -> Self {
        insert(&mut self.metadata, name, &value);
        self
    }

    /// Adds a store for the records: a folder, a URI, or a store such as
    /// [`MemoryStore`](runlore_core::store::MemoryStore). If called several times, each store gets
    /// every record, at its own pace.
    pub fn store(mut self, store: impl Into<StoreChoice>) -> Self {
        self.stores.push(store.into());
        self
    }

    /// Chooses what is measured around the workflow's tasks, instead of the types in the settings.
    /// An attribute or a task that chooses its own telemetry overrides it.
    ///
    /// ```
    /// use runlore::telemetry::TelemetryType::{Cpu, Disk};
    ///
    /// # let store = runlore::store::MemoryStore::new();
    /// let run = runlore::workflow("load").telemetry([Cpu, Disk]).store(store).start()?;
    /// # run.finish()?;
    /// # Ok::<(), runlore::Error>(())
    /// ```
    ///
    /// Like any choice in the code, it is not bounded by `telemetry_capture.max_overhead_percent`.
    pub fn telemetry(mut self, choice: impl Into<TelemetryChoice>) -> Self {
        self.telemetry = Some(choice.into());
        self
    }

    /// Leaves the program's own annotated functions out of the record, for a program that records
    /// other programs.
    pub fn without_catalogue(mut self) -> Self {
        self.without_catalogue = true;
        self
    }

    /// Starts the workflow. It is the calling thread's workflow until it ends. Threads without a
    /// workflow use the one that has been running longest.
    ///
    /// # Errors
    ///
    /// If the program must be fixed, because it names a store that does not exist. An unwritable
    /// folder, a full disk or an unreachable server causes a notice on standard error and is
    /// retried. If the system refuses to create the recorder's thread, a notice is printed and the
    /// program runs unrecorded.
    pub fn start(self) -> Result<WorkflowRun> {
        let mut run = self.open(None)?;
        let context = run.context().loosely();
        run.before = Some(context.replace());
        Ok(run)
    }

    /// Runs a closure as the workflow.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// let sum = runlore::workflow("sum").store(store).run(|| 1 + 1)?;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn run<R>(self, work: impl FnOnce() -> R) -> Result<R> {
        let mut run = self.start()?;
        let result = run.contained(work);
        // Storage problems were reported on standard error. The result is the caller's.
        _ = run.finish();
        Ok(result)
    }

    /// Runs a fallible closure as the workflow. If it returns an `Err`, the workflow has failed,
    /// and the error is returned.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// # let shown = store.clone();
    /// fn main_of_yours() -> Result<u32, Box<dyn std::error::Error>> {
    ///     Ok("seven".parse()?)
    /// }
    ///
    /// let result = runlore::workflow("parse").store(store).try_run(main_of_yours);
    /// assert!(result.is_err());
    /// # assert_eq!(shown.workflows()[1].shown().to_string(), "ERROR");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the closure's error, or an error if the workflow cannot [start](Self::start). In the
    /// latter case the closure does not run.
    pub fn try_run<R, E, K>(self, work: impl FnOnce() -> Result<R, E>) -> Result<R, E>
    where
        E: Failure<K> + From<runlore_core::Error>,
    {
        let mut run = self.start()?;
        let result = run.contained(work);
        if let Err(error) = &result {
            run.record_failure(|items| push_failure_of(items, error));
        }
        _ = run.finish();
        result
    }

    /// Runs a future as the workflow. The workflow follows the future to whichever thread polls it,
    /// so that several workflows can run at once on one async runtime.
    pub async fn track<F: Future>(self, future: F) -> Result<F::Output> {
        let run = self.open(None)?.tracked();
        let result = future.in_context(run.context()).await;
        _ = run.finish();
        Ok(result)
    }

    /// Runs a fallible future as the workflow. If it returns an `Err`, the workflow has failed, and
    /// the error is returned.
    ///
    /// # Errors
    ///
    /// Returns the future's error, or an error if the workflow cannot [start](Self::start). In the
    /// latter case the future does not run.
    pub async fn try_track<F, R, E, K>(self, future: F) -> Result<R, E>
    where
        F: Future<Output = Result<R, E>>,
        E: Failure<K> + From<runlore_core::Error>,
    {
        let mut run = self.open(None)?.tracked();
        let result = future.in_context(run.context()).await;
        if let Err(error) = &result {
            run.record_failure(|items| push_failure_of(items, error));
        }
        _ = run.finish();
        result
    }

    /// Starts recording. `joined` is the workflow of another process that this process's tasks
    /// join.
    fn open(self, joined: Option<&Inherited>) -> Result<WorkflowRun> {
        static NUMBERS: AtomicU32 = AtomicU32::new(1);
        let settings = settings();
        if !settings.instrumentation.enabled {
            return Ok(WorkflowRun::inert(self.id));
        }
        let (cost_before, cpu_before) = (overhead::Reading::now(), clock::thread_cpu_ns());
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        clock::anchor();
        let monotonic_ns = clock::monotonic_ns();
        let wall_ns = clock::wall_ns(monotonic_ns);
        let inherited = Inherited::from_env();
        let (parent_workflow, parent_task, campaign) = match context::around() {
            Some((task, outer)) => (Some(outer.id), task, Some(outer.campaign)),
            None => match inherited {
                Some(outer) => {
                    (Some(outer.workflow.clone()), outer.task_id(), Some(outer.campaign.clone()))
                }
                None => (None, None, None),
            },
        };
        let id = match joined {
            Some(outer) => outer.workflow.clone(),
            None => self.id.unwrap_or_else(|| Id::at(wall_ns).to_string()),
        };
        let campaign = self.campaign.or(campaign).unwrap_or_else(|| Id::at(wall_ns).to_string());
        let info = RunInfo::new(id.clone(), self.name.clone(), std::process::id(), settings);
        let stores = match self.stores.is_empty() {
            false => open_all(self.stores, &info)?,
            true => inherited_stores(&info)
                .map_or_else(|| open_all(default_stores(settings), &info), Ok)?,
        };
        for folder in stores.iter().filter_map(|store| store.folder()) {
            // Ignore the result: commands that inspect the folder report it, and a run must start
            // whatever is wrong there.
            _ = pipeline::recover_quietly(folder);
        }
        pipeline::replay_left(&stores);
        let hostname = host::name();
        notice_impossible_rank();
        meter::prepare();
        let (machine_info, known_later) = match joined {
            Some(_) => (None, None),
            None => machine::info(settings, &hostname),
        };
        let workflow = joined.is_none().then(|| {
            Box::new(WorkflowObject {
                workflow_id: id.clone(),
                parent_workflow_id: parent_workflow,
                parent_task_id: parent_task.map(|task| task.to_string()),
                campaign_id: Some(campaign.clone()),
                name: Some(self.name),
                workflow_description: self.description,
                subtype: self.subtype,
                started_at: Some(clock::seconds(wall_ns)),
                utc_timestamp: Some(clock::seconds(wall_ns)),
                status: Some(Status::Running),
                used: (!self.used.is_empty()).then_some(self.used),
                custom_metadata: (!self.metadata.is_empty()).then_some(self.metadata),
                user: self.user.or_else(|| user(settings)),
                environment_id: settings.sys_metadata.environment_id.as_deref().map(redact::scrub),
                settings: settings_record(settings),
                extra_metadata: extra_metadata(settings),
                hostname: Some(hostname.clone()),
                pid: Some(u64::from(std::process::id())),
                sys_name: settings
                    .sys_metadata
                    .sys_name
                    .clone()
                    .or_else(|| Some(std::env::consts::OS.to_owned())),
                unavailable: missing_rank(),
                extra: machine_names(settings),
                machine_info,
                catalogue: match self.without_catalogue {
                    true => None,
                    false => serde_json::to_value(pipeline::catalogue()).ok(),
                },
                ..WorkflowObject::default()
            })
        });
        let active = Active {
            number,
            id: id.clone(),
            name: info.name.clone(),
            campaign: campaign.clone(),
            root: parent_task,
            stores: stores.iter().filter_map(|store| store.uri()).collect(),
        };
        if let Some(choice) = self.telemetry {
            budget::set_choice_of_workflow(number, choice);
        }
        panics::watch();
        let opened = pipeline::open_run(RunSpec {
            number,
            stores,
            name: info.name,
            workflow_id: id.clone(),
            campaign_id: campaign,
            hostname,
            workflow,
            known_later,
            monotonic_ns,
            wall_ns,
            cost_before,
        });
        if let Err(error) = opened {
            budget::forget_choice_of_workflow(number);
            notice(&format!("{error}; nothing of \"{}\" is recorded", active.name));
            return Ok(WorkflowRun::inert(Some(id)));
        }
        overhead::spend(clock::thread_cpu_ns().saturating_sub(cpu_before));
        context::activate(active);
        Ok(WorkflowRun::new(number, id))
    }
}

/// Adds a value within the limits, or null if its `Serialize` panics.
fn insert(map: &mut Map<String, Value>, name: &str, value: &impl Serialize) {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, Limits::current(), Secrecy::Named(name));
    let copied = contain(|| encoder.serialize(value)).is_some();
    let value = if copied { ValueView::new(&bytes).to_json() } else { Value::Null };
    map.insert(name.to_owned(), value);
}

/// A running workflow. Created by [`WorkflowBuilder::start`].
///
/// It ends with [`finish`](Self::finish). If it is dropped without that, by `?`, `return` or a
/// panic, its status is an error.
#[derive(Debug)]
#[must_use = "the workflow ends when this is dropped"]
pub struct WorkflowRun {
    number: Number,
    id: String,
    /// The generation of the process that started it. A forked child must not end it.
    generation: u32,
    /// The fields that the workflow's last record adds to its first one.
    values: RunValues,
    error: Option<ErrorObject>,
    /// The signal that caused the error.
    signal: Option<i32>,
    /// The thread's context before the start.
    before: Option<Context>,
    since: Since,
    /// Whether a drop means that a future was cancelled.
    is_future: bool,
    ended: bool,
}

impl WorkflowRun {
    /// Creates a run that records nothing.
    fn inert(id: Option<String>) -> Self {
        Self::new(0, id.unwrap_or_else(|| Id::new().to_string()))
    }

    fn new(number: Number, id: String) -> Self {
        let since = Since::now();
        Self {
            number,
            id,
            generation: generation(),
            values: RunValues::default(),
            error: None,
            signal: None,
            before: None,
            since,
            is_future: false,
            ended: false,
        }
    }

    fn tracked(mut self) -> Self {
        self.is_future = true;
        self
    }

    /// Runs the work. A panic ends the workflow and continues to unwind.
    fn contained<R>(&mut self, work: impl FnOnce() -> R) -> R {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result,
            Err(panic) => {
                self.error = Some(error_object("panic", panic_message(&*panic)));
                _ = self.end();
                resume_unwind(panic)
            }
        }
    }

    /// Returns the workflow's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the workflow's context, for threads and futures that do not have one.
    pub fn context(&self) -> Context {
        Context::new(None, self.number)
    }

    /// Adds an input of the workflow. Inputs that are known before it starts can be given to
    /// [`WorkflowBuilder::used`].
    pub fn used(&mut self, name: &str, value: impl Serialize) {
        insert(&mut self.values.used, name, &value);
    }

    /// Adds an output of the workflow, such as the accuracy of the trained model. It is stored when
    /// the workflow ends.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// let mut run = runlore::workflow("train").store(store.clone()).start()?;
    /// run.generated("accuracy", 0.92);
    /// run.finish()?;
    /// assert_eq!(store.workflows()[1].generated.as_ref().unwrap()["accuracy"], 0.92);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn generated(&mut self, name: &str, value: impl Serialize) {
        insert(&mut self.values.generated, name, &value);
    }

    /// Adds a field to `custom_metadata`.
    pub fn metadata(&mut self, name: &str, value: impl Serialize) {
        insert(&mut self.values.metadata, name, &value);
    }

    /// Marks the workflow as failed, with an error and all its sources, or with a text. See
    /// [`Failure`] for the accepted types.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// let mut run = runlore::workflow("import").store(store.clone()).start()?;
    /// if let Err(error) = "seven".parse::<u32>() {
    ///     run.fail(error);
    /// }
    /// run.finish()?;
    /// assert_eq!(store.workflows()[1].stderr.as_deref(), Some("invalid digit found in string"));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn fail<K>(&mut self, error: impl Failure<K>) {
        self.record_failure(|items| push_failure(items, error));
    }

    /// Marks the workflow as failed because a signal ended the process that it describes. It is
    /// shown as INTERRUPTED.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// let mut run = runlore::workflow("wrapper").store(store.clone()).start()?;
    /// run.fail_by_signal(9, "the command was killed");
    /// run.finish()?;
    /// assert_eq!(store.workflows()[1].ended_by.as_deref(), Some("signal 9"));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn fail_by_signal<K>(&mut self, signal: i32, error: impl Failure<K>) {
        self.record_failure(|items| push_failure(items, error));
        self.signal = Some(signal);
    }

    fn record_failure(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        let mut items = Vec::new();
        push(&mut items);
        let mut object = error_object("error", "");
        let mut messages = Vec::new();
        for item in Items(&items) {
            match item.kind {
                ItemKind::ErrorType => object.type_name = Some(item.text().to_owned()),
                _ => messages.push(item.text().to_owned()),
            }
        }
        let mut messages = messages.into_iter();
        object.message = messages.next();
        object.chain = messages.collect();
        self.error = Some(object);
    }

    /// Ends the workflow once everything is stored, and returns counts of its tasks.
    pub fn finish(mut self) -> Result<Totals> {
        self.end()
    }

    fn end(&mut self) -> Result<Totals> {
        self.ended = true;
        if self.number == 0 || self.generation != generation() {
            return Ok(Totals::default());
        }
        if let Some(before) = self.before.take() {
            // Only if the context is still ours to restore: the run may end on another thread.
            if context::current() == self.context() {
                before.restore();
            }
        }
        context::deactivate(self.number);
        budget::forget_choice_of_workflow(self.number);
        let ending = match (self.error.take(), self.signal) {
            (None, _) => Ending::Finished,
            (Some(error), None) => Ending::Failed(error),
            (Some(error), Some(signal)) => {
                Ending::Signal(signal, error.message.unwrap_or_default())
            }
        };
        let (monotonic_ns, values) = (clock::monotonic_ns(), std::mem::take(&mut self.values));
        pipeline::close_run(self.number, RunEnd { monotonic_ns, ending, values })
    }
}

impl Drop for WorkflowRun {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let panicked = self.since.is_panicking();
        self.error.get_or_insert_with(|| match (panicked, self.is_future) {
            (true, _) => {
                error_object("panic", self.since.message().as_deref().unwrap_or("panicked"))
            }
            (_, true) => error_object("cancelled", "the future was dropped before it finished"),
            _ => error_object("unfinished", "the workflow was dropped without finish()"),
        });
        // The caller cannot receive an error here; the writer has printed it on standard error.
        _ = self.end();
    }
}

fn open_all(
    chosen: impl IntoIterator<Item = StoreChoice>,
    info: &RunInfo,
) -> Result<Vec<Box<dyn Store>>> {
    chosen.into_iter().map(|store| store.open(info)).collect()
}

/// Opens the stores that a parent process passed on. A store that cannot be opened must not keep
/// the program from running.
fn inherited_stores(info: &RunInfo) -> Option<Vec<Box<dyn Store>>> {
    let uris = std::env::var(context::STORE).ok()?;
    let open = |uri: &str| match StoreChoice::from(uri).open(info) {
        Ok(store) => Some(store),
        Err(error) => {
            notice(&format!("{error} (from ${})", context::STORE));
            None
        }
    };
    let stores: Vec<_> = uris.lines().filter(|uri| !uri.is_empty()).filter_map(open).collect();
    (!stores.is_empty()).then_some(stores)
}

/// Returns the stores to use if neither the code nor the environment names any.
fn default_stores(settings: &Settings) -> Vec<StoreChoice> {
    store::default_uris(settings).into_iter().map(StoreChoice::from).collect()
}

/// Returns the user from the settings, else from the environment, else the login name.
fn user(settings: &Settings) -> Option<String> {
    let named = settings.experiment.user.clone().or_else(host::user);
    named.or_else(|| settings.sys_metadata.login_name.clone()).or_else(host::login_name)
}

/// Returns the settings in force, without secrets.
fn settings_record(settings: &Settings) -> Option<Map<String, Value>> {
    match redact::hidden("", serde_json::to_value(settings).ok()?) {
        Value::Object(settings) => Some(settings),
        _ => None,
    }
}

fn extra_metadata(settings: &Settings) -> Option<Map<String, Value>> {
    let extra = redact::hidden("", Value::Object(settings.extra_metadata.clone()));
    extra.as_object().filter(|extra| !extra.is_empty()).cloned()
}

/// Returns the names that the settings give the machine and its user, and the process's rank in a
/// larger job.
fn machine_names(settings: &Settings) -> Map<String, Value> {
    let names = &settings.sys_metadata;
    let identity = Identity::of_process();
    [
        ("node_name", &names.node_name),
        ("login_name", &names.login_name),
        ("public_ip", &names.public_ip),
        ("private_ip", &names.private_ip),
    ]
    .into_iter()
    .filter_map(|(key, name)| Some((key.to_owned(), Value::String(redact::scrub(name.as_ref()?)))))
    .chain(serde_json::to_value(identity).ok().into_iter().flat_map(into_fields))
    .collect()
}

/// Returns why the record lacks a rank that the environment sets. `None` if it does not lack one.
fn missing_rank() -> Option<Map<String, Value>> {
    let identity = Identity::of_process();
    let why = identity.problem.clone().filter(|_| identity.rank.is_none())?;
    Some(Map::from_iter([("rank".to_owned(), why.into())]))
}

/// Prints a notice if the environment sets an impossible rank.
fn notice_impossible_rank() {
    if let Some(problem) = &Identity::of_process().problem {
        notice(problem);
    }
}

fn into_fields(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn error_object(kind: &str, message: &str) -> ErrorObject {
    ErrorObject {
        kind: Some(kind.to_owned()),
        message: Some(redact::scrub(message)),
        ..ErrorObject::default()
    }
}

/// At the process's first task outside any workflow, joins the workflow that a parent process
/// passed on, or starts one if the settings say so. Returns whether the caller should look for a
/// workflow again.
#[cold]
pub(super) fn join_inherited_once() -> bool {
    static DECIDED: PerProcess<OnceLock<()>> = PerProcess::new();
    if !context::is_undecided() {
        return false;
    }
    // A thread that arrives while another decides waits for it: its task may be the workflow's
    // first.
    DECIDED.get_or_init(|| {
        if let Err(error) = join_inherited() {
            notice(&format!("nothing is recorded: {error}"));
        }
        context::decided();
    });
    true
}

fn join_inherited() -> Result<()> {
    let inherited = Inherited::from_env();
    if inherited.is_some() || settings().instrumentation.implicit_workflow {
        // The workflow ends with the process.
        std::mem::forget(workflow(host::program()).open(inherited)?);
    }
    Ok(())
}
