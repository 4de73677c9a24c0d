//! Upserts tasks into their collection, joined with any task of the same id.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::{Error as DriverError, ErrorKind as Kind};
use mongodb::options::InsertManyOptions;

use super::collections::Collections;
use super::connection::Connection;
use super::decode::Stored;
use super::document::{Label, REVISION, now};
use super::problem::{DUPLICATE, code, explain, is_of_document, is_passing, is_refusal, scrubbed};
use super::shrink;
use super::write::Documents;
use runlore_core::record::{Status, TaskObject};
use runlore_core::store::join::join_task;
use runlore_core::store::{RecordHead, RecordKind, Refused};
use runlore_core::{Error, ErrorKind, Result};

/// The timeout of one command: long enough for a slow server, but not for one that hangs.
const LONGEST: Duration = Duration::from_secs(30);
/// The number of documents per insert command: few enough for a slow server.
const AT_ONCE: usize = 250;
/// How often to retry a document that other programs change at the same time.
const ATTEMPTS: usize = 20;
/// How often the server may report a duplicate that cannot be found. Another program may delete it
/// in between, but not every time.
pub(super) const IN_VAIN: usize = 3;
/// After how many refused commands it is clear that no single document is the cause.
const MOST_IN_VAIN: usize = 32;
/// The number of ids per query.
const IDS: usize = 1000;

/// The context for writing records to their collections.
pub(super) struct Upserts<'a> {
    pub(super) connection: &'a Connection,
    pub(super) documents: &'a mut Documents,
    pub(super) refusals: &'a mut Refusals,
}

/// The refused records, by the hash of their text: a batch that is retried refuses the same ones.
pub(super) type Refusals = HashMap<u128, Refused>;

/// A task to be written, with the text that its document was made from.
pub(super) struct Task<'a> {
    pub(super) id: String,
    pub(super) document: RawDocumentBuf,
    pub(super) text: Cow<'a, str>,
}

/// A document of a batch that was not inserted, and why.
struct Failed {
    index: usize,
    /// The error code for the document. `None` if the whole command was refused.
    code: Option<i32>,
    why: String,
    /// Whether the document is known to be the cause: the server said so, or accepted others.
    is_sure: bool,
}

impl Upserts<'_> {
    pub(super) fn collections(&self) -> Collections {
        Collections::new(self.connection.database())
    }

    /// Writes tasks, most of which should be new.
    pub(super) fn tasks(&mut self, tasks: Vec<Task<'_>>) -> Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let (documents, records): (Vec<_>, Vec<_>) =
            tasks.into_iter().map(|task| (task.document, (task.id, task.text))).unzip();
        let mut failed = Vec::new();
        let mut documents = documents.into_iter().peekable();
        let mut first = 0;
        while documents.peek().is_some() {
            let some: Vec<_> = documents.by_ref().take(AT_ONCE).collect();
            let count = some.len();
            let now = self.insert(&self.collections().tasks(), some)?;
            failed.extend(now.into_iter().map(|it| Failed { index: first + it.index, ..it }));
            first += count;
        }
        let (known, refused): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|failed| failed.code == Some(DUPLICATE));
        for failed in refused {
            let (id, text) = &records[failed.index];
            self.upsert_sealed(id, text, &failed)?;
        }
        let known: Vec<_> = known.iter().map(|failed| &records[failed.index]).collect();
        let ids: Vec<&str> = known.iter().map(|(id, _)| &**id).collect();
        let mut stored = self.stored(&ids)?;
        for (id, text) in known {
            let before = stored.remove(id);
            if let Some(now) = self.join(id, text, before)? {
                stored.insert(id.clone(), now);
            }
        }
        Ok(())
    }

    /// Inserts documents independently of each other. Returns those that failed, and why.
    ///
    /// If the server refuses a whole command, each half is tried again, the largest parts first. If
    /// a single document is the cause, all others get in. If none gets in, no document is to blame.
    fn insert(
        &self,
        into: &Collection<RawDocumentBuf>,
        documents: Vec<RawDocumentBuf>,
    ) -> Result<Vec<Failed>> {
        let documents = Arc::new(documents);
        let (mut failed, mut alone) = (Vec::new(), Vec::new());
        let (mut is_any_in, mut in_vain) = (false, 0);
        let mut parts = VecDeque::new();
        parts.push_back(0..documents.len());
        while let Some(part) = parts.pop_front() {
            let error = match self.insert_part(into.clone(), &documents, part.clone())? {
                Ok(some) => {
                    is_any_in = true;
                    failed.extend(some);
                    continue;
                }
                Err(error) => error,
            };
            in_vain += 1;
            if !is_any_in && in_vain == MOST_IN_VAIN {
                return Err(self.problem(&error));
            }
            let middle = part.start + part.len() / 2;
            match part.len() {
                1 => alone.push((part.start, error)),
                _ => parts.extend([part.start..middle, middle..part.end]),
            }
        }
        if let Some((_, error)) = alone.first()
            && !is_any_in
            && documents.len() > 1
        {
            return Err(self.problem(error));
        }
        failed.extend(alone.into_iter().map(|(index, error)| {
            let (why, is_sure) = (scrubbed(&error), is_any_in);
            Failed { index, code: None, why, is_sure }
        }));
        Ok(failed)
    }

    /// Inserts some of the documents. The inner error means that the server refused them as a
    /// whole.
    fn insert_part(
        &self,
        into: Collection<RawDocumentBuf>,
        documents: &Arc<Vec<RawDocumentBuf>>,
        part: Range<usize>,
    ) -> Result<Result<Vec<Failed>, DriverError>> {
        let shown = self.connection.shown().to_owned();
        let documents = Arc::clone(documents);
        self.connection.run_for(LONGEST, async move {
            let mut has_tried = false;
            loop {
                let mut options = InsertManyOptions::default();
                options.ordered = Some(false);
                let some = &documents[part.clone()];
                let Err(error) = into.insert_many(some).with_options(options).await else {
                    return Ok(Ok(Vec::new()));
                };
                match &*error.kind {
                    Kind::InsertMany(many) if many.write_concern_error.is_none() => {
                        let failed = many.write_errors.iter().flatten();
                        let failed = failed.map(|one| Failed {
                            index: part.start + one.index,
                            code: Some(one.code),
                            why: one.message.clone(),
                            is_sure: true,
                        });
                        return Ok(Ok(failed.collect()));
                    }
                    _ if is_passing(&error) && !has_tried => has_tried = true,
                    _ if is_refusal(&error) => return Ok(Err(error)),
                    _ => return Err(explain(&shown, &error)),
                }
            }
        })
    }

    /// Runs one command, and retries it once after a transient error. The inner error means that
    /// the server refused the command.
    pub(super) fn patiently<T, F>(
        &self,
        mut work: impl FnMut(Collections) -> F + Send + 'static,
    ) -> Result<Result<T, DriverError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DriverError>> + Send + 'static,
    {
        let collections = self.collections();
        let shown = self.connection.shown().to_owned();
        self.connection.run_for(LONGEST, async move {
            let mut result = work(collections.clone()).await;
            if result.as_ref().is_err_and(is_passing) {
                result = work(collections).await;
            }
            match result {
                // The server understood the command and refuses it.
                Err(error) if code(&error).is_some() && !is_passing(&error) => Ok(Err(error)),
                Err(error) => Err(explain(&shown, &error)),
                Ok(value) => Ok(Ok(value)),
            }
        })
    }

    /// Returns the stored tasks with these ids. The ids are those that are unique in the
    /// collection.
    pub(super) fn stored(&self, ids: &[&str]) -> Result<HashMap<String, Stored>> {
        let mut stored = HashMap::new();
        for ids in ids.chunks(IDS) {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            let filter = doc! {"task_id": {"$in": ids}};
            for document in self.all(filter, Collections::tasks)? {
                let id = document.get_str("task_id").unwrap_or_default().to_owned();
                stored.insert(id, Stored::of(&document)?);
            }
        }
        Ok(stored)
    }

    /// Returns all documents that match.
    pub(super) fn all(
        &self,
        filter: Document,
        of: fn(&Collections) -> Collection<RawDocumentBuf>,
    ) -> Result<Vec<RawDocumentBuf>> {
        let found = self.patiently(move |collections| {
            let filter = filter.clone();
            async move {
                let mut found = Vec::new();
                let mut cursor = of(&collections).find(filter).sort(doc! {"_id": 1}).await?;
                while cursor.advance().await? {
                    found.push(cursor.current().to_owned());
                }
                Ok(found)
            }
        })?;
        found.map_err(|error| self.problem(&error))
    }

    /// Joins a task with the stored one of the same id, or inserts it. May return the stored task,
    /// so that it need not be read again.
    fn join(&mut self, id: &str, text: &str, known: Option<Stored>) -> Result<Option<Stored>> {
        let task: TaskObject = serde_json::from_str(text).map_err(not_json)?;
        let (mut known, mut copy, mut in_vain) = (known, 1, 0);
        for _ in 0..ATTEMPTS {
            let unique = if copy == 1 { id.to_owned() } else { format!("{id}#{copy}") };
            if known.is_none() {
                known = self.stored(&[&unique])?.remove(&unique);
            }
            let Some(there) = &known else {
                let Some(why) = self.insert_as(text, &unique, copy > 1)? else { return Ok(None) };
                in_vain += 1;
                if in_vain == IN_VAIN {
                    // Another document has the same value in a field with a unique index.
                    self.refused(text, &why, true)?;
                    return Ok(None);
                }
                continue;
            };
            in_vain = 0;
            let mut joined: TaskObject =
                serde_json::from_value(there.json.clone()).map_err(not_json)?;
            let is_other = joined.workflow_id != task.workflow_id
                || join_task(&mut joined, task.clone()).is_err();
            if is_other {
                // They are different tasks. Keep both, although only one can have the id.
                (known, copy) = (None, copy + 1);
                continue;
            }
            let json = serde_json::to_value(&joined).map_err(not_json)?;
            if json == there.json {
                return Ok(known.filter(|_| copy == 1));
            }
            if let Some(now) = self.replace(there, json, (copy > 1).then_some(&*unique))? {
                return Ok((copy == 1).then_some(now));
            }
            known = None;
        }
        let text =
            format!("{}: other programs keep changing the task {id}", self.connection.shown());
        Err(Error::new(ErrorKind::Store, text))
    }

    /// Inserts a task under an id. If that id exists by now, returns the server's message.
    fn insert_as(&mut self, text: &str, unique: &str, is_copy: bool) -> Result<Option<String>> {
        let mut label = Label::new(self.documents.next_id());
        label.unique_id = is_copy.then_some(unique);
        let document = shrink::fitting(text, &label)?;
        let failed = self.insert(&self.collections().tasks(), vec![document])?;
        match failed.into_iter().next() {
            None => Ok(None),
            Some(failed) if failed.code == Some(DUPLICATE) => Ok(Some(failed.why)),
            Some(failed) => {
                self.upsert_sealed(unique, text, &failed)?;
                Ok(None)
            }
        }
    }

    /// Replaces a task. `None` if another program has changed it in the meantime.
    fn replace(
        &mut self,
        known: &Stored,
        json: serde_json::Value,
        unique: Option<&str>,
    ) -> Result<Option<Stored>> {
        let text = json.to_string();
        let revision = known.revision.map_or(0, |revision| revision + 1);
        for is_sealed in [false, true] {
            let label = Label {
                id: known.id.clone(),
                revision,
                registered: known.registered.unwrap_or_else(now),
                unique_id: unique,
                is_sealed,
            };
            let document = shrink::fitting(&text, &label)?;
            let replaced = self.replace_in(Collections::tasks, known, document)?;
            match replaced {
                Ok(false) => return Ok(None),
                Ok(true) => {
                    return Ok(Some(Stored { revision: Some(revision), json, ..known.clone() }));
                }
                Err(error) if !is_of_document(&error) && !is_refusal(&error) => {
                    return Err(self.problem(&error));
                }
                // The stored document stays as it is.
                Err(error) if is_sealed => {
                    self.refused(&text, &scrubbed(&error), is_of_document(&error))?;
                    return Ok(Some(known.clone()));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Replaces a document. `false` if another program has changed it in the meantime.
    pub(super) fn replace_in(
        &self,
        of: fn(&Collections) -> Collection<RawDocumentBuf>,
        known: &Stored,
        document: RawDocumentBuf,
    ) -> Result<Result<bool, DriverError>> {
        let revision = known.revision.map_or(Bson::Null, Bson::Int64);
        let filter = doc! {"_id": known.id.clone(), REVISION: revision};
        self.patiently(move |collections| {
            let (filter, document) = (filter.clone(), document.clone());
            async move {
                let done = of(&collections).replace_one(filter, &document).await?;
                Ok(done.matched_count > 0)
            }
        })
    }

    /// Stores a task that the server does not accept as it is: only its core fields and its text.
    fn upsert_sealed(&mut self, id: &str, text: &str, before: &Failed) -> Result<()> {
        let label = Label { is_sealed: true, ..Label::new(self.documents.next_id()) };
        let document = shrink::fitting(text, &label)?;
        let failed = self.insert(&self.collections().tasks(), vec![document])?;
        match failed.first() {
            None => Ok(()),
            Some(failed) if failed.code == Some(DUPLICATE) => {
                let known = self.stored(&[id])?.remove(id);
                self.join(id, text, known).map(|_| ())
            }
            Some(failed) => self.refused(text, &before.why, before.is_sure || failed.is_sure),
        }
    }

    /// Stores a refused record in a separate collection, so that it does not hold up the others.
    ///
    /// If the server rejects it there too, the record is lost: retrying forever would block all
    /// later records. Without `is_sure` this is an error instead, because the server may be
    /// refusing everything.
    pub(super) fn refused(&mut self, text: &str, why: &str, is_sure: bool) -> Result<()> {
        let end = (0..=text.len().min(shrink::LARGEST - 4096))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let hash = twox_hash::XxHash3_128::oneshot(text.as_bytes());
        let (id, why) = (format!("{hash:032x}"), runlore_core::record::scrub(why));
        let update = doc! {"$setOnInsert": {
            "why": &why, "json": &text[..end],
            "registered_at": mongodb::bson::DateTime::from_millis(now()),
        }};
        let kept = self.patiently(move |collections| {
            let (id, update) = (doc! {"_id": &id}, update.clone());
            async move { collections.refused().update_one(id, update).upsert(true).await }
        })?;
        if let Err(error) = &kept
            && !is_sure
            && !is_of_document(error)
        {
            return Err(self.problem(error));
        }
        let kept = kept.is_ok().then(|| "its collection refused_records".to_owned());
        let store = self.connection.shown().to_owned();
        self.refusals.insert(hash, Refused { store, why, kept, task: task_in(text) });
        Ok(())
    }

    /// Inserts documents, each given with the text of its record, and skips those that already
    /// exist. Returns the server's message about the last one that exists.
    pub(super) fn insert_new(
        &mut self,
        into: &Collection<RawDocumentBuf>,
        documents: Vec<(RawDocumentBuf, &str)>,
    ) -> Result<Option<String>> {
        let (documents, texts): (Vec<_>, Vec<_>) = documents.into_iter().unzip();
        let mut known = None;
        for failed in self.insert(into, documents)? {
            match failed.code {
                Some(DUPLICATE) => known = Some(failed.why),
                _ => self.refused(texts[failed.index], &failed.why, failed.is_sure)?,
            }
        }
        Ok(known)
    }

    /// Returns whether a document was replaced. A document that the server refuses is stored in the
    /// separate collection, and counts as replaced.
    pub(super) fn settled(
        &mut self,
        replaced: Result<bool, DriverError>,
        text: &str,
    ) -> Result<bool> {
        match replaced {
            Ok(is_replaced) => Ok(is_replaced),
            Err(error) if is_of_document(&error) || is_refusal(&error) => {
                self.refused(text, &scrubbed(&error), is_of_document(&error)).map(|()| true)
            }
            Err(error) => Err(self.problem(&error)),
        }
    }

    /// Converts a driver error to an error of the store.
    fn problem(&self, error: &DriverError) -> Error {
        explain(self.connection.shown(), error)
    }
}

/// Returns the status of the task in a record. `None` if it is not a task.
fn task_in(text: &str) -> Option<Status> {
    let head = RecordHead::read(text).ok()?;
    head.status.filter(|_| head.kind == RecordKind::Task)
}

pub(super) fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Record, "a record is not JSON").with_source(error)
}
