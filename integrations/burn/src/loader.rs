//! Epochs and batches of a training whose loops are inside burn: told by the loaders, which the training thread pulls.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use runlore::ml::{Detached, Epoch, Epochs, Iterations, Place, Step};
use runlore::{Context, Entered, WorkflowRun};

/// The loader whose start is that of an epoch.
const TRAIN: &str = "train";

/// A training by burn's `SupervisedTraining`, or anything else that pulls loaders.
///
/// Burn's own loggers hear of a batch late and on another thread. A loader is pulled on the thread that trains, exactly where a
/// batch ends and the next begins: so wrap the loaders. Forward passes in between belong to their batch. An epoch begins where the loader
/// called `train` is started; other loaders belong to the epoch that runs. Epochs are numbered from 1, as burn does; after a checkpoint burn goes on
/// where it was, which [`logger`](Self::logger) finds out.
///
/// With several devices burn splits the loader, and trains on threads of its own: the parts share an epoch, each with its batches, but forward passes belong
/// to the run, and metrics to the epoch.
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
    epochs: Epochs<Numbers, Detached>,
    numbers: Numbers,
    /// How many epochs have begun.
    begun: usize,
    /// The parts of a loader that were started in the epoch.
    started: HashSet<Part>,
    /// Where metrics belong that are still to come, by how many epochs had begun; none where nobody waits for them.
    places: Option<BTreeMap<usize, EpochPlaces>>,
    run: Context,
}

/// The numbers of epochs to come.
#[derive(Clone)]
struct Numbers(Arc<AtomicUsize>);

impl Iterator for Numbers {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        Some(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The items of a part, where a loader was split: the first, and the one after the last.
type Part = (usize, usize);

/// An epoch and its batches, as places for metrics.
struct EpochPlaces {
    epoch: Context,
    /// By split, and number from 1 as burn counts them.
    batches: HashMap<(String, usize), Context>,
}

impl Training {
    /// A training in this run.
    pub fn new(run: &WorkflowRun) -> Self {
        let numbers = Numbers(Arc::new(AtomicUsize::new(1)));
        let state = State {
            epoch: None,
            epochs: run.epochs(numbers.clone()).detached(),
            numbers,
            begun: 0,
            started: HashSet::new(),
            places: None,
            run: run.context(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The same loader, whose batches are recorded: `train`, `valid`, or whatever else it is for.
    pub fn loader<O: 'static>(
        &self,
        split: &str,
        loader: Arc<dyn DataLoader<O>>,
    ) -> Arc<dyn DataLoader<O>> {
        Arc::new(Loader { loader, split: split.to_owned(), part: None, training: self.clone() })
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

    /// Starts to go through a loader, or a part of one: the loop over its batches, the context around it, and how many epochs have begun.
    fn start<B: Iterator>(
        &self,
        split: &str,
        part: Option<Part>,
        batches: B,
    ) -> (Iterations<B, Detached>, Context, usize) {
        let mut state = self.state();
        let state = &mut *state;
        let is_next = split == TRAIN && part.is_none_or(|part| state.started.contains(&part));
        if let Some(epoch) = state.epoch.take_if(|_| is_next) {
            epoch.finish();
        }
        if state.epoch.is_none() {
            state.epoch = state.epochs.next();
            state.begun += 1;
            state.started.clear();
        }
        // Epochs are counted without end.
        let Some(epoch) = &state.epoch else { unreachable!("there is another epoch") };
        let around = epoch.context();
        if split == TRAIN {
            state.started.extend(part);
        }
        if let Some(places) = &mut state.places {
            let epoch = || EpochPlaces { epoch: around, batches: HashMap::new() };
            places.entry(state.begun).or_insert_with(epoch);
        }
        (epoch.batches(split, batches), around, state.begun)
    }

    /// From here on somebody waits for places.
    #[cfg(feature = "train")]
    pub(crate) fn expect_metrics(&self) {
        self.state().places.get_or_insert_default();
    }

    fn note(&self, epoch: usize, batch: impl FnOnce() -> ((String, usize), Context)) {
        let mut state = self.state();
        if let Some(places) = state.places.as_mut().and_then(|places| places.get_mut(&epoch)) {
            places.batches.extend([batch()]);
        }
    }

    /// Hears that the epoch which runs has this number for burn; how many epochs have begun.
    #[cfg(feature = "train")]
    pub(crate) fn number(&self, number: usize) -> usize {
        let state = self.state();
        if let Some(epoch) = state.epoch.as_ref().filter(|epoch| *epoch.item() != number) {
            epoch.used("epoch", number);
            state.numbers.0.store(number + 1, Ordering::Relaxed);
        }
        state.begun
    }

    /// The batch that metrics belong to, else their epoch, else the run. Burn tells metrics in the order of its epochs: of those before the
    /// last one nothing more comes.
    #[cfg(feature = "train")]
    pub(crate) fn place(&self, split: &str, epoch: usize, iteration: Option<usize>) -> Context {
        let mut state = self.state();
        let run = state.run;
        let Some(places) = &mut state.places else { return run };
        while places.first_entry().is_some_and(|first| *first.key() + 1 < epoch) {
            places.pop_first();
        }
        let Some(places) = places.get_mut(&epoch) else { return run };
        let batch = iteration.and_then(|at| places.batches.remove(&(split.to_owned(), at)));
        batch.unwrap_or(places.epoch)
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
    part: Option<Part>,
    training: Training,
}

impl<O: 'static> Loader<O> {
    /// The same, in another form.
    fn with(&self, loader: Arc<dyn DataLoader<O>>, part: Option<Part>) -> Arc<dyn DataLoader<O>> {
        let (split, training) = (self.split.clone(), self.training.clone());
        Arc::new(Self { loader, split, part, training })
    }
}

impl<O: 'static> DataLoader<O> for Loader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let source = Rc::new(RefCell::new(self.loader.iter()));
        let pulled = Pulled(Rc::clone(&source));
        let (batches, around, epoch) = self.training.start(&self.split, self.part, pulled);
        if self.part.is_some() {
            // Parts are gone through beside each other, perhaps on one thread: none is what that thread is in.
            return Box::new(Batches {
                step: None,
                batches,
                source,
                loader: self,
                epoch,
                _around: None,
            });
        }
        Box::new(Batches {
            step: None,
            batches: batches.attached(),
            source,
            loader: self,
            epoch,
            _around: Some(around.enter()),
        })
    }

    fn num_items(&self) -> usize {
        self.loader.num_items()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        self.with(self.loader.to_device(device), self.part)
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let from = self.part.map_or(0, |(from, _)| from);
        self.with(self.loader.slice(start, end), Some((from + start, from + end)))
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
struct Batches<'a, O, P: Place> {
    step: Option<Step<P>>,
    batches: Iterations<Pulled<'a, O>, P>,
    source: Source<'a, O>,
    loader: &'a Loader<O>,
    epoch: usize,
    _around: Option<Entered>,
}

impl<O, P: Place> Iterator for Batches<'_, O, P> {
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
        let Loader { split, part, training, .. } = self.loader;
        match part {
            // Burn counts the batches of all parts together, in the order in which they are done.
            Some(part) => step.used("part", part),
            None => training
                .note(self.epoch, || ((split.clone(), step.index() as usize + 1), step.context())),
        }
        self.step = Some(step);
        Some(batch)
    }
}

impl<O, P: Place> DataLoaderIterator<O> for Batches<'_, O, P> {
    fn progress(&self) -> Progress {
        self.source.borrow().progress()
    }
}
