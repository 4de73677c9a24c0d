//! One run of a program or of a part of it: what the tasks in it have in common.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use super::field::record;
use super::{ErrorObject, Status};

record! {
    /// A workflow: recorded as RUNNING when it starts, and in full when it ends.
    ///
    /// ```
    /// use runlore::record::{Record, Status};
    ///
    /// let record = Record::from_json(serde_json::json!({
    ///     "type": "workflow", "workflow_id": "w1", "name": "train", "status": "RUNNING",
    /// }))?;
    /// let workflow = record.as_workflow().unwrap();
    /// assert_eq!(workflow.name.as_deref(), Some("train"));
    /// assert_eq!(workflow.status, Some(Status::Running));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub struct WorkflowObject("workflow") {
        /// Its id; filled on reading where the record has none.
        id: workflow_id,
        /// The workflow that started this one.
        parent_workflow_id: String,
        /// The task that started this one.
        parent_task_id: String,
        /// What several workflows belong to.
        campaign_id: String,
        /// Its name.
        name: String,
        /// What it is for.
        workflow_description: String,
        /// What kind of workflow it is.
        subtype: String,
        /// Words given by the author.
        tags: Vec<String>,
        /// When it began, in Unix seconds.
        started_at: f64,
        /// When it ended, in Unix seconds.
        ended_at: f64,
        /// Nanoseconds by the monotonic clock: the duration to trust.
        duration_ns: u64,
        /// How far it has come.
        status: Status,
        /// Whether its process exited with 0 while it was open.
        ended_early: bool,
        /// What ended its process, where that is known: `signal 9`.
        ended_by: String,
        /// The exit code of its process, unless that is 0.
        exit_code: u64,
        /// What went in.
        used: Map<String, Value>,
        /// What came out.
        generated: Map<String, Value>,
        /// What went wrong, in one text.
        stderr: String,
        /// What went wrong, in parts.
        error: Box<ErrorObject>,
        /// Whatever the author added.
        custom_metadata: Map<String, Value>,
        /// Who ran it.
        user: String,
        /// The machine it ran on.
        hostname: String,
        /// The number of its process.
        pid: u64,
        /// The operating system.
        sys_name: String,
        /// The environment it ran in, as the settings name it.
        environment_id: String,
        /// The machines it ran on.
        machine_info: Map<String, Value>,
        /// Every annotated function of the program: the plan, beside what really ran.
        catalogue: Value,
        /// Tasks by status, drops, bytes, and what capturing cost.
        totals: Map<String, Value>,
        /// What could not be recorded, and why.
        unavailable: Map<String, Value>,
        /// The settings in force, without secrets.
        settings: Map<String, Value>,
        /// Where the settings came from.
        conf: Map<String, Value>,
        /// The commit the program was run from.
        code_repository: Map<String, Value>,
        /// Whatever the settings add to every workflow.
        extra_metadata: Map<String, Value>,
        /// The agent that started it.
        agent_id: String,
        /// The adapter that made the record.
        adapter_id: String,
        /// What captured it, as Flowcept names that.
        interceptor_ids: Vec<String>,
        /// Flowcept's settings, in its own records.
        flowcept_settings: Map<String, Value>,
        /// Flowcept's version, in its own records.
        flowcept_version: String,
        /// When the record was made, in Unix seconds.
        utc_timestamp: f64,
    }
}

impl WorkflowObject {
    /// The name to show: its own, else the id.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.workflow_id)
    }

    /// How long it took: by the monotonic clock where that was kept, else by the wall clock.
    pub fn duration(&self) -> Option<Duration> {
        super::duration(self.duration_ns, self.started_at, self.ended_at)
    }

    /// Whether it has ended, well or not.
    pub fn is_finished(&self) -> bool {
        self.status.is_some_and(Status::is_final)
    }

    /// What went wrong, in one text.
    pub fn error_message(&self) -> Option<Cow<'_, str>> {
        super::error_message(self.stderr.as_deref(), self.error.as_deref(), &self.extra)
    }
}
