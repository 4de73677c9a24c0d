//! A file that its process could not finish: made whole, so that it can be gone on with.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Deserialize;

/// A file whose last line is whole, open at its end.
#[derive(Debug)]
pub(crate) struct Mended {
    file: File,
    /// Which of the tasks asked for have ended in it.
    pub(crate) ended: HashSet<String>,
    /// Which of the tasks asked for are in it as running only.
    pub(crate) running: HashSet<String>,
    /// Whether it says how its workflow ended.
    pub(crate) has_end: bool,
}

#[derive(Deserialize)]
struct Line {
    r#type: Option<String>,
    task_id: Option<String>,
    status: Option<String>,
}

impl Mended {
    /// Cuts off half a line, and looks which of these tasks are in the file.
    pub(crate) fn open(path: &Path, tasks: &HashSet<String>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut reader = BufReader::new(file);
        let mut mended = (HashSet::new(), HashSet::new(), false);
        let (mut line, mut whole) = (Vec::new(), 0);
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)?;
            if length == 0 || line.last() != Some(&b'\n') {
                break;
            }
            whole += length as u64;
            let Ok(Line { r#type, task_id, status }) = serde_json::from_slice(&line) else {
                continue;
            };
            let ended = matches!(status.as_deref(), Some("FINISHED" | "ERROR"));
            mended.2 |=
                r#type.as_deref() == Some("workflow") && status.as_deref() != Some("RUNNING");
            if let Some(id) = task_id.filter(|id| tasks.contains(id)) {
                if ended {
                    mended.0.insert(id)
                } else {
                    mended.1.insert(id)
                };
            }
        }
        let mut file = reader.into_inner();
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        let (ended, running, has_end) = mended;
        Ok(Self { file, ended, running, has_end })
    }

    /// Appends whole lines.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_cut_off_and_what_is_there_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let whole = "{\"type\":\"workflow\",\"status\":\"RUNNING\"}\n\
            {\"type\":\"task\",\"task_id\":\"a\",\"status\":\"FINISHED\"}\n\
            {\"type\":\"task\",\"task_id\":\"b\",\"status\":\"RUNNING\"}\n";
        std::fs::write(&path, format!("{whole}{{\"type\":\"task\",\"task_id\":\"c\",\"sta"))
            .unwrap();
        let wanted = ["a", "b", "c"].map(str::to_owned).into();
        let mut mended = Mended::open(&path, &wanted).unwrap();
        assert_eq!(mended.ended, ["a".to_owned()].into());
        assert_eq!(mended.running, ["b".to_owned()].into());
        assert!(!mended.has_end);
        mended.append(b"{}\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{{}}\n"));
    }
}
