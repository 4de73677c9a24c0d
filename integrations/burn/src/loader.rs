//! Epochs and batches of a training whose loops are inside burn: told by the loaders, which the training thread pulls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::RangeFrom;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use runlore::ml::{Detached, Epoch, Epochs, Iterations, Step};
use runlore::{Context, Entered, WorkflowRun};

/// The loader whose start is that of an epoch.
const TRAIN: &str = "train";

/// A training by burn's `SupervisedTraining`, or anything else that pulls loaders.
///
/// Burn's own loggers hear of a batch late and on another thread. A loader is pulled on the thread that trains, exactly where a
/// batch ends and the next begins: so wrap the loaders. Forward passes in between belong to their batch. An epoch begins where the loader
/// called `train` is started; other loaders belong to the epoch that runs.
///
/// ```
/// # use std::sync::Arc;
/// # use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
/// # use burn::data::dataset::InMemDataset;
/// # use burn::tensor::Device;
/// # struct Sum;
/// # impl Batcher<u32, u32> for Sum { fn batch(&self, items: Vec<u32>, _: &Device) -> u32 { items.iter().sum() } }
/// # let loader = || DataLoaderBuilder::new(Sum).batch_size(2).build(InMemDataset::new(vec![1, 2, 3, 4]));
/// # let (loader_train, loader_valid) = (loader(), loader());
/// use runlore_burn::Training;
///
/// # let store = runlore::store::MemoryStore::new();
/// let run = runlore::workflow("train").store(store.clone()).start()?;
/// let training = Training::new(&run);
/// let loader_train = training.loader("train", loader_train);
/// let loader_valid = training.loader("valid", loader_valid);
/// // SupervisedTraining::new(directory, loader_train, loader_valid)….launch(learner);
/// # for batch in loader_train.iter() { batch.unwrap(); }
/// # for batch in loader_valid.iter() { batch.unwrap(); }
/// training.finish();
/// run.finish()?;
/// # assert_eq!(store.tasks().len(), 1 + 2 + 2);
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Clone)]
pub struct Training {
    state: Arc<Mutex<State>>,
}

struct State {
    /// The epoch that runs; dropped before its loop.
    epoch: Option<Epoch<usize, Detached>>,
    epochs: Epochs<RangeFrom<usize>, Detached>,
    /// Batches whose metrics are still to come, by split, epoch and iteration; none where nobody waits for them.
    batches: Option<HashMap<Batch, Context>>,
}

/// The split, the epoch and the iteration, both from 1 as burn counts them.
pub(crate) type Batch = (String, usize, usize);

impl Training {
    /// A training in this run.
    pub fn new(run: &WorkflowRun) -> Self {
        let epochs = run.epochs(1..).detached();
        Self { state: Arc::new(Mutex::new(State { epoch: None, epochs, batches: None })) }
    }

    /// The same loader, whose batches are recorded: `train`, `valid`, or whatever else it is for.
    pub fn loader<O: 'static>(
        &self,
        split: &str,
        loader: Arc<dyn DataLoader<O>>,
    ) -> Arc<dyn DataLoader<O>> {
        Arc::new(Loader { loader, split: split.to_owned(), training: self.clone() })
    }

    /// Ends the last epoch: to be called when the training has ended. Without it that epoch says `ended_early`.
    pub fn finish(&self) {
        let epoch = self.state().epoch.take();
        if let Some(epoch) = epoch {
            epoch.finish();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to go through a loader: the loop over its batches, the context around it, and the epoch's number.
    fn start<B: Iterator>(&self, split: &str, batches: B) -> (Iterations<B>, Context, usize) {
        if split == TRAIN {
            self.finish();
        }
        let mut state = self.state();
        if state.epoch.is_none() {
            state.epoch = state.epochs.next();
        }
        // Epochs are counted without end.
        let Some(epoch) = &state.epoch else { unreachable!("there is another epoch") };
        let batches = epoch.batches(split, batches).attached();
        (batches, epoch.context(), *epoch.item())
    }

    /// From here on somebody waits for batches.
    #[cfg(feature = "train")]
    pub(crate) fn expect_metrics(&self) {
        self.state().batches.get_or_insert_default();
    }

    fn note(&self, batch: impl FnOnce() -> (Batch, Context)) {
        if let Some(batches) = &mut self.state().batches {
            batches.extend([batch()]);
        }
    }

    /// The batch that metrics belong to.
    #[cfg(feature = "train")]
    pub(crate) fn take(&self, batch: &Batch) -> Option<Context> {
        self.state().batches.as_mut()?.remove(batch)
    }

    /// The epoch that runs, if it is this one.
    #[cfg(feature = "train")]
    pub(crate) fn epoch(&self, number: usize) -> Option<Context> {
        self.state().epoch.as_ref().filter(|epoch| *epoch.item() == number).map(|it| it.context())
    }
}

impl fmt::Debug for Training {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Training").field("epoch", &self.state().epoch).finish_non_exhaustive()
    }
}

struct Loader<O> {
    loader: Arc<dyn DataLoader<O>>,
    split: String,
    training: Training,
}

impl<O: 'static> DataLoader<O> for Loader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let source = Rc::new(RefCell::new(self.loader.iter()));
        let (batches, around, epoch) = self.training.start(&self.split, Pulled(Rc::clone(&source)));
        Box::new(Batches {
            step: None,
            batches,
            source,
            loader: self,
            epoch,
            _around: around.enter(),
        })
    }

    fn num_items(&self) -> usize {
        self.loader.num_items()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        self.training.loader(&self.split, self.loader.to_device(device))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        self.training.loader(&self.split, self.loader.slice(start, end))
    }
}

type Source<'a, O> = Rc<RefCell<Box<dyn DataLoaderIterator<O> + 'a>>>;

/// The batches as the loader gives them.
struct Pulled<'a, O>(Source<'a, O>);

impl<O> Iterator for Pulled<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.borrow_mut().next()
    }
}

/// The batches, each recorded until the next one is pulled. What is dropped first stands first.
struct Batches<'a, O> {
    step: Option<Step>,
    batches: Iterations<Pulled<'a, O>>,
    source: Source<'a, O>,
    loader: &'a Loader<O>,
    epoch: usize,
    _around: Entered,
}

impl<O> Iterator for Batches<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step = None;
        let before = self.source.borrow().progress().items_processed;
        let (step, batch) = self.batches.next()?;
        let after = self.source.borrow().progress().items_processed;
        step.items(after.saturating_sub(before));
        if let Err(error) = &batch {
            step.fail(error);
        }
        self.loader.training.note(|| {
            let iteration = step.index() as usize + 1;
            ((self.loader.split.clone(), self.epoch, iteration), step.context())
        });
        self.step = Some(step);
        Some(batch)
    }
}

impl<O> DataLoaderIterator<O> for Batches<'_, O> {
    fn progress(&self) -> Progress {
        self.source.borrow().progress()
    }
}
