//! Progress bars, with the feature `progress`.

#[cfg(feature = "progress")]
pub(super) use with_indicatif::Bar;
#[cfg(not(feature = "progress"))]
pub(super) use without::Bar;

#[cfg(not(feature = "progress"))]
mod without {
    /// Without the feature there are no bars.
    #[derive(Debug)]
    pub(crate) enum Bar {}

    impl Bar {
        pub(crate) fn advance(&self) {
            match *self {}
        }

        pub(crate) fn add_items(&self, _: u64) {
            match *self {}
        }
    }
}

#[cfg(feature = "progress")]
mod with_indicatif {
    use std::io::IsTerminal;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, OnceLock};

    use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

    /// A progress bar. It disappears when its loop ends.
    #[derive(Debug)]
    pub(crate) struct Bar {
        bar: ProgressBar,
        items: AtomicU64,
    }

    /// The templates for a known and an unknown number of iterations.
    const COUNTED: &str = "{prefix} {wide_bar} {pos}/{len} {per_sec}{msg} {eta} left";
    const UNCOUNTED: &str = "{prefix} {spinner} {pos} {per_sec}{msg}";

    /// Returns the shared display, which stacks the bars of nested loops.
    fn all() -> &'static MultiProgress {
        static ALL: OnceLock<MultiProgress> = OnceLock::new();
        ALL.get_or_init(MultiProgress::new)
    }

    impl Bar {
        /// Creates a bar for a loop with this `size_hint`. `None` if standard error is not a
        /// terminal.
        pub(crate) fn show(title: &str, hint: (usize, Option<usize>)) -> Option<Arc<Self>> {
            std::io::stderr().is_terminal().then(|| Arc::new(Self::new(title, hint)))
        }

        fn new(title: &str, (least, most): (usize, Option<usize>)) -> Self {
            let (bar, template) = match most.filter(|most| *most == least) {
                Some(rounds) => (ProgressBar::new(rounds as u64), COUNTED),
                None => (ProgressBar::new_spinner(), UNCOUNTED),
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(title.to_owned());
            Self { bar: all().add(bar), items: AtomicU64::new(0) }
        }

        pub(crate) fn advance(&self) {
            self.bar.inc(1);
        }

        pub(crate) fn add_items(&self, count: u64) {
            let items = count + self.items.fetch_add(count, Ordering::Relaxed);
            let seconds = self.bar.elapsed().as_secs_f64();
            if seconds > 0.0 {
                self.bar.set_message(format!(" {:.0} items/s", items as f64 / seconds));
            }
        }
    }

    impl Drop for Bar {
        fn drop(&mut self) {
            self.bar.finish_and_clear();
            all().remove(&self.bar);
        }
    }

    #[cfg(test)]
    mod tests {
        use indicatif::ProgressDrawTarget;

        use super::*;

        #[test]
        fn a_bar_knows_how_far_it_is_if_the_loop_does() {
            all().set_draw_target(ProgressDrawTarget::hidden());
            let sized = Bar::new("batches", (4, Some(4)));
            sized.advance();
            sized.add_items(32);
            assert_eq!((sized.bar.position(), sized.bar.length()), (1, Some(4)));
            assert_eq!(sized.items.load(Ordering::Relaxed), 32);
            assert!(sized.bar.message().ends_with(" items/s"), "{}", sized.bar.message());
            assert_eq!(Bar::new("stream", (0, None)).bar.length(), None);
            assert_eq!(Bar::new("filtered", (0, Some(9))).bar.length(), None);
        }

        #[test]
        fn a_bar_looks_like_something() {
            for template in [COUNTED, UNCOUNTED] {
                ProgressStyle::with_template(template).unwrap();
            }
        }
    }
}
