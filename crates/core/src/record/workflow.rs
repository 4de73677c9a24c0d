//! Workflow records: one per run of a program or of a part of it, with the data that its tasks
//! share.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use super::field::record;
use super::{ErrorObject, Status};

record! {
    /// A workflow record. It is written as RUNNING when the run starts, and in full when it ends.
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
        /// The workflow's id. If the record has none, the parser generates one.
        id: workflow_id,
        /// The workflow that started this one.
        parent_workflow_id: String,
        /// The task that started this one.
        parent_task_id: String,
        /// The campaign, which groups several workflows.
        campaign_id: String,
        /// The workflow's name.
        name: String,
        /// The purpose of the workflow.
        workflow_description: String,
        /// The kind of workflow.
        subtype: String,
        /// Tags given by the author of the program.
        tags: Vec<String>,
        /// When it began, in Unix seconds.
        started_at: f64,
        /// When it ended, in Unix seconds.
        ended_at: f64,
        /// Duration in nanoseconds of the monotonic clock. Prefer it to the difference of the
        /// timestamps.
        duration_ns: u64,
        /// The status, such as running or finished.
        status: Status,
        /// Whether the process exited with code 0 while the run was still open.
        ended_early: bool,
        /// What ended the process, such as `signal 9`, if that is known.
        ended_by: String,
        /// The exit code of the process, if it is not 0.
        exit_code: u64,
        /// Input values, by name.
        used: Map<String, Value>,
        /// Output values, by name.
        generated: Map<String, Value>,
        /// The error as one text.
        stderr: String,
        /// The error as separate fields.
        error: Box<ErrorObject>,
        /// Other data that the author of the program added.
        custom_metadata: Map<String, Value>,
        /// The person who ran it.
        user: String,
        /// The name of the host it ran on.
        hostname: String,
        /// The process id.
        pid: u64,
        /// The operating system.
        sys_name: String,
        /// The environment it ran in, as named in the settings.
        environment_id: String,
        /// Descriptions of the machines it ran on.
        machine_info: Map<String, Value>,
        /// Every annotated function of the program, whether it was called or not.
        catalogue: Value,
        /// Number of tasks by status, number of dropped tasks, bytes, and the cost of captures.
        totals: Map<String, Value>,
        /// Reasons why parts of the record are missing, by field.
        unavailable: Map<String, Value>,
        /// The effective settings, without secrets.
        settings: Map<String, Value>,
        /// Where the settings came from.
        conf: Map<String, Value>,
        /// The commit of the program's source code.
        code_repository: Map<String, Value>,
        /// Metadata that the settings add to every workflow.
        extra_metadata: Map<String, Value>,
        /// The agent that started it.
        agent_id: String,
        /// The Flowcept adapter that created the record.
        adapter_id: String,
        /// Ids of the Flowcept interceptors that captured it.
        interceptor_ids: Vec<String>,
        /// Flowcept's settings. Only records written by Flowcept have them.
        flowcept_settings: Map<String, Value>,
        /// Flowcept's version. Only records written by Flowcept have it.
        flowcept_version: String,
        /// When the record was created, in Unix seconds.
        utc_timestamp: f64,
    }
}

impl WorkflowObject {
    /// Returns the name to show: the workflow's name. Falls back to its id.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.workflow_id)
    }

    /// Returns the duration: by the monotonic clock if it was recorded, otherwise by the wall
    /// clock.
    pub fn duration(&self) -> Option<Duration> {
        super::duration(self.duration_ns, self.started_at, self.ended_at)
    }

    /// Whether the run has ended, successfully or not.
    pub fn is_finished(&self) -> bool {
        self.status.is_some_and(Status::is_final)
    }

    /// Returns the error as one text.
    pub fn error_message(&self) -> Option<Cow<'_, str>> {
        super::error_message(self.stderr.as_deref(), self.error.as_deref(), &self.extra)
    }
}
