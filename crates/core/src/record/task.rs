//! One call of a function, or one block: the record most of a store is made of.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use super::field::record;
use super::{CaptureObject, CodeObject, ErrorObject, Status, ThreadObject};

record! {
    /// A task: what went in, what came out, how it ended, how long it took, and what called it.
    ///
    /// Every field but the id is optional, because records of other programs are read too. See
    /// [`crate::record`] for how a record is read.
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
        /// Its id; filled on reading where the record has none.
        id: task_id,
        /// The workflow it belongs to.
        workflow_id: String,
        /// What the workflow belongs to.
        campaign_id: String,
        /// The name of the function, or the one given instead.
        activity_id: String,
        /// The task that was open around this one.
        parent_task_id: String,
        /// What kind of task it is, such as `iteration`.
        subtype: String,
        /// What the iterations of one loop have in common.
        group_id: String,
        /// Words given by the author.
        tags: Vec<String>,
        /// When it was handed over, in Unix seconds.
        submitted_at: f64,
        /// When it began, in Unix seconds.
        started_at: f64,
        /// When it ended, in Unix seconds.
        ended_at: f64,
        /// Nanoseconds by the monotonic clock, the body alone: the duration to trust.
        duration_ns: u64,
        /// How far it has come.
        status: Status,
        /// Whether its block was left by `break`, `?` or `return`.
        ended_early: bool,
        /// What went in, by parameter name.
        used: Map<String, Value>,
        /// What came out, by name.
        generated: Map<String, Value>,
        /// The error with its whole chain, or the panic's message.
        stderr: String,
        /// What it printed, where somebody kept it.
        stdout: Value,
        /// How it failed, in parts.
        error: Box<ErrorObject>,
        /// Where its code is.
        code: Box<CodeObject>,
        /// Whatever the author added.
        custom_metadata: Map<String, Value>,
        /// The machine it ran on.
        hostname: String,
        /// The node of a cluster it ran on.
        node_name: String,
        /// The account it ran under.
        login_name: String,
        /// The person it ran for.
        user: String,
        /// The environment it ran in, as the settings name it.
        environment_id: String,
        /// The number of its process.
        pid: u64,
        /// The thread that ran it.
        thread: Box<ThreadObject>,
        /// Its rank among all processes of a job.
        rank: u64,
        /// Its rank among the processes of a job on this machine.
        local_rank: u64,
        /// How many processes the job has.
        world_size: u64,
        /// The id of the batch job.
        job_id: String,
        /// The agent that ran it.
        agent_id: String,
        /// The agent that asked for it.
        source_agent_id: String,
        /// The adapter that made the record.
        adapter_id: String,
        /// Ids of the tasks it waited for.
        dependencies: Vec<String>,
        /// Ids of the tasks that waited for it.
        dependents: Vec<String>,
        /// What the machine was doing when it began.
        telemetry_at_start: Map<String, Value>,
        /// What the machine was doing when it ended.
        telemetry_at_end: Map<String, Value>,
        /// What capturing that cost.
        capture: Box<CaptureObject>,
        /// What the task itself used.
        resources: Map<String, Value>,
        /// Hashes of the values in `used` and `generated`.
        hashes: Map<String, Value>,
        /// What could not be recorded, with the reason.
        unavailable: Map<String, Value>,
        /// A raw payload, where somebody kept one.
        data: Value,
        /// When the record was made, in Unix seconds.
        utc_timestamp: f64,
        /// When the record was stored, in Unix seconds.
        registered_at: f64,
    }
}

impl TaskObject {
    /// The name to show: the activity, else the id.
    pub fn name(&self) -> &str {
        self.activity_id.as_deref().unwrap_or(&self.task_id)
    }

    /// How long it took: by the monotonic clock where that was kept, else by the wall clock.
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

    /// Processor time that is in no other task's record: the task's own, and that of a process which it ran.
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

    /// Whether it has ended, well or not.
    pub fn is_finished(&self) -> bool {
        self.status.is_some_and(Status::is_final)
    }

    /// Whether it ended by an error.
    pub fn is_error(&self) -> bool {
        self.status == Some(Status::Error)
    }

    /// What went wrong, in one text: the error with its chain, or the panic's message.
    pub fn error_message(&self) -> Option<Cow<'_, str>> {
        super::error_message(self.stderr.as_deref(), self.error.as_deref(), &self.extra)
    }
}
