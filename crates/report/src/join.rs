//! Joins two pictures of the same time.

use super::picture::{Panel, Picture};

impl Picture {
    /// Adds the curves, bars, marks and notes of another picture, for example that of the run in
    /// which the events were collected. The two are aligned by the machine's clock. Panels with the
    /// same subject are merged. If both have a curve of the same name, the existing one stays. The
    /// densities are removed, and a note says so.
    ///
    /// ```
    /// use runlore::report::{Bar, Picture};
    ///
    /// let mut events = Picture { start_ns: 100, length_ns: 50, ..Picture::default() };
    /// let bar = Bar { start_ns: 5, length_ns: 70, ..Bar::default() };
    /// let run = Picture { start_ns: 90, length_ns: 80, bars: vec![bar], ..Picture::default() };
    /// events.add(run);
    /// assert_eq!((events.start_ns, events.length_ns), (90, 80));
    /// assert_eq!(events.bars[0].start_ns, 5);
    /// ```
    pub fn add(&mut self, mut other: Picture) {
        let end = |one: &Picture| one.start_ns.saturating_add(one.length_ns);
        let start_ns = self.start_ns.min(other.start_ns);
        let end_ns = end(self).max(end(&other));
        self.shift(self.start_ns - start_ns);
        other.shift(other.start_ns - start_ns);
        self.start_ns = start_ns;
        self.length_ns = end_ns - start_ns;
        let row = self.rows();
        self.bars.extend(other.bars.into_iter().map(|mut bar| {
            bar.row += row;
            bar
        }));
        let places: Vec<usize> =
            other.panels.into_iter().map(|panel| self.add_panel(panel)).collect();
        self.marks.extend(other.marks.into_iter().map(|mut mark| {
            mark.panel = mark.panel.and_then(|panel| places.get(panel).copied());
            mark
        }));
        self.notes.extend(other.notes);
        if !(self.density.is_empty() && other.density.is_empty()) {
            self.density.clear();
            self.notes
                .push("tasks that are too short for a bar of their own are left out".to_owned());
        }
    }

    /// Adds the curves of a panel to the existing panel of the same subject, or adds the panel.
    /// Returns its index.
    fn add_panel(&mut self, panel: Panel) -> usize {
        // A title may have a suffix, such as the host or the total memory.
        let is_same =
            |known: &Panel| known.unit == panel.unit && known.title.starts_with(&panel.title);
        let Some(at) = self.panels.iter().position(is_same) else {
            self.panels.push(panel);
            return self.panels.len() - 1;
        };
        let known = &mut self.panels[at];
        for line in panel.lines {
            if known.lines.iter().all(|other| other.name != line.name) {
                known.lines.push(line);
            }
        }
        at
    }

    /// Shifts all times by `by_ns`.
    fn shift(&mut self, by_ns: u64) {
        let points = self.panels.iter_mut().flat_map(|panel| &mut panel.lines);
        for point in points.flat_map(|line| &mut line.points) {
            point.at_ns = point.at_ns.saturating_add(by_ns);
        }
        for bar in &mut self.bars {
            bar.start_ns = bar.start_ns.saturating_add(by_ns);
        }
        for mark in &mut self.marks {
            mark.at_ns = mark.at_ns.saturating_add(by_ns);
            mark.end_ns = mark.end_ns.saturating_add(by_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Line, Mark, Unit};

    fn panel(title: &str, lines: &[&str]) -> Panel {
        let line = |name: &&str| Line { name: (*name).to_owned(), ..Line::default() };
        Panel {
            title: title.to_owned(),
            unit: Unit::Percent,
            lines: lines.iter().map(line).collect(),
            limit: None,
        }
    }

    #[test]
    fn what_both_tell_of_is_drawn_once() {
        let mut events = Picture {
            panels: vec![
                panel("Memory of the machine node1", &["in use"]),
                panel("Processors", &["machine"]),
            ],
            ..Picture::default()
        };
        let mark = Mark { panel: Some(1), ..Mark::default() };
        events.add(Picture {
            panels: vec![
                panel("Disks", &["read"]),
                panel("Processors", &["machine", "process 7"]),
                panel("Memory of the machine", &["in use"]),
            ],
            marks: vec![mark],
            ..Picture::default()
        });
        let told: Vec<(&str, usize)> =
            events.panels.iter().map(|panel| (&*panel.title, panel.lines.len())).collect();
        assert_eq!(told, [("Memory of the machine node1", 1), ("Processors", 2), ("Disks", 1)]);
        assert_eq!(events.marks[0].panel, Some(1));
    }
}
