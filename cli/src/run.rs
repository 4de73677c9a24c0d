//! `runlore run`: runs any command as a task, in whatever language it is written.
//!
//! The exit code is the command's own. It is `128 + signal` if a signal ended the command, 127 if
//! it was not found, 126 if it could not be executed, and 125 if recording could not begin.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};

use runlore::record::scrub_arguments;

use crate::Done;
use crate::child::{self, Ended};
use crate::failure::say;
use crate::store::Store;

/// Run a command and record it as a task
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore run -- make all
  runlore run --name nightly -- python train.py --epochs 3

The exit code is that of the command, 128 + N if signal N ended it, 127 if it was not found, 126 if it could
not be executed, and 125 if recording could not start.")]
pub(crate) struct Args {
    /// Name of the run [default: the name of the command]
    #[arg(long, value_name = "N")]
    name: Option<String>,

    /// When the command has ended, print the id of the run and the exit code as JSON on standard error
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let argv: Vec<String> =
        args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = argv[0].rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let name = args.name.as_deref().unwrap_or(&program);

    let workflow = runlore::workflow(name).without_catalogue();
    let workflow = store.each().fold(workflow, |workflow, store| workflow.store(store.place()));
    let mut recording = match workflow.start() {
        Ok(recording) => recording,
        Err(error) => {
            say(&format!("{error}; {program} was not run"));
            return Ok(ExitCode::from(125));
        }
    };
    let Outcome { code, error, killed } = execute(&args.command, &argv, &program);
    match (error, killed) {
        (Some(error), Some((pid, signal))) => {
            recording.fail_by_signal(signal, error);
            // The command may have recorded runs of its own. Only this process knows which signal
            // killed it.
            for folder in store.each().filter_map(|store| store.folder()) {
                if let Err(error) = runlore::recover_killed(folder, pid, signal) {
                    say(&error.to_string());
                }
            }
        }
        (Some(error), None) => recording.fail(error),
        (None, _) => {}
    }
    let id = recording.id().to_owned();
    // The command has run, so the caller expects its exit code even if the record is lost.
    if let Err(error) = recording.finish() {
        say(&error.to_string());
    }
    if args.json {
        let told = serde_json::json!({"workflow_id": id, "exit_code": code});
        // Standard output belongs to the command.
        _ = writeln!(io::stderr(), "{told}");
    }
    Ok(ExitCode::from(code))
}

/// The result of a command.
struct Outcome {
    code: u8,
    error: Option<Box<dyn Error>>,
    /// The process id and the signal, if a signal ended the command.
    killed: Option<(u32, i32)>,
}

fn execute(words: &[OsString], argv: &[String], program: &str) -> Outcome {
    let shown: Vec<_> = scrub_arguments(argv).collect();
    let mut task = runlore::task(program).used("argv", &shown).start();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    runlore::current().to_env(&mut command);
    #[allow(unused_mut, reason = "signals are a matter of Unix")]
    let mut killed = None;
    let (code, error): (u8, Option<Box<dyn Error>>) = match complete(&mut command) {
        #[allow(unused_variables, reason = "signals are a matter of Unix")]
        Ok((pid, Ended { status, used })) => {
            let code = exit_code(status);
            task.generated("exit_code", code);
            #[cfg(unix)]
            if let Some(signal) = status.signal() {
                killed = Some((pid, signal));
                task.generated("exit_signal", signal);
                task.generated("core_dumped", status.core_dumped());
            }
            if let Some(used) = used {
                task.child_used(&used);
            }
            (code, if code == 0 { None } else { Some(Box::new(Unsuccessful(status))) })
        }
        Err(error) => {
            say(&format!("cannot run {program}: {error}"));
            (if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }, Some(error.into()))
        }
    };
    if let Some(error) = &error {
        task.fail(&**error);
    }
    task.finish();
    Outcome { code, error, killed }
}

/// Runs a command to its end, regardless of signals. Also returns its process id.
fn complete(command: &mut Command) -> io::Result<(u32, Ended)> {
    let mut child = spawn(command)?;
    Ok((child.id(), wait(&mut child)?))
}

/// Starts a command. Signals are left to it from now on.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    #[cfg(unix)]
    crate::signals::leave_to_command();
    let child = command.spawn()?;
    #[cfg(unix)]
    crate::signals::set_command(child.id());
    Ok(child)
}

/// Waits for the command to end.
pub(crate) fn wait(child: &mut Child) -> io::Result<Ended> {
    child::wait(child, || {
        #[cfg(unix)]
        crate::signals::set_command(0);
    })
}

/// Returns the exit code of this program for the command's status.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = status.signal() {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    // Codes above 255 exist only on Windows. They must not be truncated to 0.
    status.code().map_or(u8::MAX, |code| u8::try_from(code).unwrap_or(u8::MAX))
}

/// The error of a command that did not exit with 0.
#[derive(Debug)]
struct Unsuccessful(ExitStatus);

impl fmt::Display for Unsuccessful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command ended with {}", self.0)
    }
}

impl Error for Unsuccessful {}
