//! `runlore events timeline`: draws events as a picture.

use std::path::PathBuf;
use std::process::ExitCode;

use runlore::analyze::Thresholds;
use runlore::report::{Picture, RunReport};

use super::read;
use crate::Done;
use crate::failure::Failure;
use crate::select;
use crate::store::Store;

/// Draw memory over time, with findings marked
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events timeline run.jsonl -o run.png
  runlore events timeline rank0.jsonl rank1.jsonl -o job.html   ranks, with their clocks aligned
  runlore events timeline run.jsonl --run train -o run.svg      with the tasks of a run as bars

An HTML timeline is one interactive file that needs no network.")]
pub(crate) struct Args {
    /// Event files, sinks, diagnose bundles, or folders that contain them; all go into one picture
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,

    /// The file to write: .png, .svg or .html
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Title of the picture
    #[arg(long)]
    title: Option<String>,

    /// Also draw the tasks and sensor values of this run: its id, a part of it, or its name
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    /// Draw only this session: its id, or the end of the id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// The file format of a picture.
enum Form {
    Png,
    Svg,
    Html,
}

impl Args {
    /// Whether the picture includes a run, which is read from a store.
    pub(super) fn asks_for_a_run(&self) -> bool {
        self.run.is_some()
    }

    fn form(&self) -> Result<Form, Failure> {
        match self.output.extension().map(|it| it.to_string_lossy().to_lowercase()).as_deref() {
            Some("png") => Ok(Form::Png),
            Some("svg") => Ok(Form::Svg),
            Some("html" | "htm") => Ok(Form::Html),
            _ => Err(Failure::new(format!(
                "cannot write {}: name it *.png, *.svg or *.html",
                self.output.display()
            ))),
        }
    }
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let form = args.form()?;
    let timelines = read(&args.files, args.session.as_deref())?.collector.finish();
    if timelines.series().iter().all(|series| series.samples.is_empty()) {
        return Err(Failure::new(
            "nothing to draw: none of the events is a sample; `runlore events stats` shows what there is",
        ));
    }
    let mut picture = Picture::of_events(&timelines, &timelines.analyze(&Thresholds::default()));
    if let Some(run) = &args.run {
        let records = store.open()?;
        let runs = store.listed(&records)?;
        let id = &select::run(&runs, Some(run), store)?.workflow.workflow_id;
        picture.add(RunReport::builder(&records, id).runs(&runs).build()?.picture);
        store.tell(&records);
    }
    if let Some(title) = &args.title {
        picture.title.clone_from(title);
    }
    let bytes = match form {
        Form::Png => picture.to_png(2.0)?,
        Form::Svg => picture.to_svg().into_bytes(),
        Form::Html => picture.to_html().into_bytes(),
    };
    crate::out::write_file(&args.output, &bytes)?;
    Ok(ExitCode::SUCCESS)
}
