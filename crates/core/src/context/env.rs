//! Contexts that are passed to child processes in environment variables.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::{Context, active};
use crate::fork::get_or_make;
use crate::record::Id;

/// The environment variable with the parent's context, as JSON.
const CONTEXT: &str = "RUNLORE_CONTEXT";
/// The environment variable with the parent's stores.
pub const STORE: &str = "RUNLORE_STORE";

/// The context that the parent process passed on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inherited {
    pub workflow: String,
    pub campaign: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<String>,
}

impl Inherited {
    /// Parses the context in the environment of this process.
    pub fn from_env() -> Option<&'static Self> {
        static INHERITED: OnceLock<Option<Inherited>> = OnceLock::new();
        let read = || serde_json::from_str(&std::env::var(CONTEXT).ok()?).ok();
        get_or_make(&INHERITED, read).as_ref()
    }

    /// Returns the id of the parent process's task.
    pub fn task_id(&self) -> Option<Id> {
        self.task.as_deref()?.parse().ok()
    }
}

pub(super) fn variables(context: Context) -> Vec<(&'static str, String)> {
    let resolved = match context.task {
        Some(_) => Some(context),
        None => active::resolve(context),
    };
    let Some((context, run)) =
        resolved.and_then(|context| Some((context, active::get(context.workflow())?)))
    else {
        return Vec::new();
    };
    let handed = Inherited {
        workflow: run.id,
        campaign: run.campaign,
        task: context.task.map(|task| task.to_string()),
    };
    let mut variables = Vec::new();
    if let Ok(text) = serde_json::to_string(&handed) {
        variables.push((CONTEXT, text));
    }
    if !run.stores.is_empty() {
        variables.push((STORE, run.stores.join("\n")));
    }
    variables
}
