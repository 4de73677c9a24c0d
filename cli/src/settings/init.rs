//! `runlore settings init`: writes the documented settings file as a starting point.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use runlore::settings::DEFAULT_YAML;

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;

/// Write a documented settings.yaml with the default of every setting
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore settings init
  runlore settings init --full ~/.config/runlore/settings.yaml
  runlore settings init - | less")]
pub(crate) struct Args {
    /// The file to write; `-` for standard output
    #[arg(default_value = "settings.yaml")]
    path: PathBuf,

    /// Enable all types of telemetry that need no graphics processor
    #[arg(long)]
    full: bool,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let text = if args.full { full() } else { DEFAULT_YAML.to_owned() };
    let mut out = stdout();
    if args.path == Path::new("-") {
        out.write_all(text.as_bytes())?;
    } else {
        let path = args.path.display();
        create(args).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
            Failure::new(match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!("{path} already exists; `--force` replaces it")
                }
                kind => format!("cannot write {path}: {kind}"),
            })
        })?;
        writeln!(out, "wrote {path}; after editing it, run `runlore settings check`")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn create(args: &Args) -> io::Result<File> {
    if let Some(folder) = args.path.parent() {
        fs::create_dir_all(folder)?;
    }
    if args.force {
        return File::create(&args.path);
    }
    OpenOptions::new().write(true).create_new(true).open(&args.path)
}

/// Returns the documented file with all telemetry enabled that its example shows.
fn full() -> String {
    let mut text = DEFAULT_YAML.to_owned();
    for key in ["per_cpu", "disk", "network", "energy"] {
        text = text.replace(&format!("\n  {key}: false "), &format!("\n  {key}: true "));
    }
    // Remove the example, because the file now has these values itself.
    let example = text.find("\n# All sensors, for a closer look");
    let after = text.find("\ninstrumentation:");
    if let (Some(example), Some(after)) = (example, after) {
        text.replace_range(example..after, "");
    }
    text
}
