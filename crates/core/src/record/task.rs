//! Task records: one per recorded function call or block. Most records of a store are tasks.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use super::field::record;
use super::{CaptureObject, CodeObject, ErrorObject, Status, ThreadObject};

record! {
    /// A task record: inputs, outputs, outcome, duration and parent of one recorded call.
    ///
    /// Every field except the id is optional, because records written by other programs may lack
    /// them. [`crate::record`] describes how records are parsed.
    ///
    /// ```
    /// use runlore::record::{Status, TaskObject};
    ///
    /// let task = TaskObject {
    ///     task_id: "t1".into(),
    ///     activity_id: Some("load".into()),
    ///     status: Some(Status::Finished),
    ///     duration_ns: Some(30_000_000),
    ///     ..TaskObject::default()
    /// };
    /// assert_eq!(
    ///     serde_json::to_string(&task).unwrap(),
    ///     r#"{"type":"task","task_id":"t1","activity_id":"load","duration_ns":30000000,"status":"FINISHED"}"#,
    /// );
    /// ```
    pub struct TaskObject("task") {
        /// The task's id. If the record has none, the parser generates one.
        id: task_id,
        /// The workflow it belongs to.
        workflow_id: String,
        /// The campaign that the workflow belongs to.
        campaign_id: String,
        /// The activity: the function's name, or the name given in its place.
        activity_id: String,
        /// The enclosing task: the one that was current when this task began.
        parent_task_id: String,
        /// The kind of task, such as `iteration`.
        subtype: String,
        /// An id that all iterations of one loop share.
        group_id: String,
        /// Tags given by the author of the program.
        tags: Vec<String>,
        /// When it was submitted, in Unix seconds.
        submitted_at: f64,
        /// When it began, in Unix seconds.
        started_at: f64,
        /// When it ended, in Unix seconds.
        ended_at: f64,
        /// Duration of the body alone, in nanoseconds of the monotonic clock. Prefer it to the
        /// difference of the timestamps.
        duration_ns: u64,
        /// The status, such as running or finished.
        status: Status,
        /// Whether its block was left by `break`, `?` or `return`.
        ended_early: bool,
        /// Input values, by parameter name.
        used: Map<String, Value>,
        /// Output values, by name.
        generated: Map<String, Value>,
        /// The error with its chain of causes, or the panic message.
        stderr: String,
        /// Standard output of the task, if it was captured.
        stdout: Value,
        /// The error as separate fields.
        error: Box<ErrorObject>,
        /// Source location of the task's code.
        code: Box<CodeObject>,
        /// Other data that the author of the program added.
        custom_metadata: Map<String, Value>,
        /// The name of the host it ran on.
        hostname: String,
        /// The cluster node it ran on.
        node_name: String,
        /// The account it ran under.
        login_name: String,
        /// The person it ran for.
        user: String,
        /// The environment it ran in, as named in the settings.
        environment_id: String,
        /// The process id.
        pid: u64,
        /// The thread that ran it.
        thread: Box<ThreadObject>,
        /// Its rank among all processes of a job.
        rank: u64,
        /// Its rank among the processes of a job on this machine.
        local_rank: u64,
        /// The number of processes in the job.
        world_size: u64,
        /// The id of the batch job.
        job_id: String,
        /// The agent that ran it.
        agent_id: String,
        /// The agent that requested it.
        source_agent_id: String,
        /// The Flowcept adapter that created the record.
        adapter_id: String,
        /// Ids of the tasks it waited for.
        dependencies: Vec<String>,
        /// Ids of the tasks that waited for it.
        dependents: Vec<String>,
        /// The telemetry capture at the start of the task.
        telemetry_at_start: Map<String, Value>,
        /// The telemetry capture at the end of the task.
        telemetry_at_end: Map<String, Value>,
        /// How these captures were taken, and their cost.
        capture: Box<CaptureObject>,
        /// The resources that the task used.
        resources: Map<String, Value>,
        /// Hashes of the values in `used` and `generated`.
        hashes: Map<String, Value>,
        /// Reasons why parts of the record are missing, by field.
        unavailable: Map<String, Value>,
        /// A raw payload, if there is one.
        data: Value,
        /// When the record was created, in Unix seconds.
        utc_timestamp: f64,
        /// When the record was stored, in Unix seconds.
        registered_at: f64,
    }
}

impl TaskObject {
    /// Returns the name to show: the activity. Falls back to the id.
    pub fn name(&self) -> &str {
        self.activity_id.as_deref().unwrap_or(&self.task_id)
    }

    /// Returns the duration: by the monotonic clock if it was recorded, otherwise by the wall
    /// clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use runlore::record::TaskObject;
    /// let task = TaskObject { started_at: Some(10.0), ended_at: Some(10.5), ..TaskObject::default() };
    /// assert_eq!(task.duration(), Some(Duration::from_millis(500)));
    /// ```
    pub fn duration(&self) -> Option<Duration> {
        super::duration(self.duration_ns, self.started_at, self.ended_at)
    }

    /// Returns the CPU time that no other task's record includes.
    ///
    /// This is the task's own CPU time plus that of a child process that it ran.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use runlore::record::TaskObject;
    /// let text = r#"{"task_id": "t", "resources": {"cpu_ns": {"self": 500, "inclusive": 800}}}"#;
    /// let task: TaskObject = serde_json::from_str(text)?;
    /// assert_eq!(task.own_cpu(), Some(Duration::from_nanos(500)));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn own_cpu(&self) -> Option<Duration> {
        let resources = self.resources.as_ref()?;
        let number = |part: &str, name: &str| resources.get(part)?.get(name)?.as_u64();
        let parts = [("cpu_ns", "self"), ("child", "user_ns"), ("child", "system_ns")];
        let times = parts.into_iter().filter_map(|(part, name)| number(part, name));
        times.reduce(u64::saturating_add).map(Duration::from_nanos)
    }

    /// Whether the task has ended, successfully or not.
    pub fn is_finished(&self) -> bool {
        self.status.is_some_and(Status::is_final)
    }

    /// Whether the task ended with an error.
    pub fn is_error(&self) -> bool {
        self.status == Some(Status::Error)
    }

    /// Returns the error as one text: the error with its chain of causes, or the panic message.
    pub fn error_message(&self) -> Option<Cow<'_, str>> {
        super::error_message(self.stderr.as_deref(), self.error.as_deref(), &self.extra)
    }
}
