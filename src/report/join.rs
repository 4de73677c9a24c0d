//! Two pictures of the same time as one.

use super::picture::Picture;

impl Picture {
    /// Adds the curves and bars of another picture, such as that of the run that events were collected in, by the clock of
    /// the machine. Its marks come too; how many more ran than it has bars for is told as a note.
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
        self.panels.extend(other.panels);
        self.marks.extend(other.marks);
        self.notes.extend(other.notes);
        if !(self.density.is_empty() && other.density.is_empty()) {
            self.density.clear();
            self.notes
                .push("tasks that are too short for a bar of their own are left out".to_owned());
        }
    }

    /// Moves everything to the right.
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
