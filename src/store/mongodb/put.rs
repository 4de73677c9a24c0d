//! Tasks into their collection, joined with what is there of the same id.

use std::collections::HashMap;
use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use mongodb::error::{Error as DriverError, ErrorKind as Kind};
use mongodb::options::InsertManyOptions;

use super::collections::Collections;
use super::connection::Connection;
use super::decode::Stored;
use super::document::{Encoded, Encoder, Label, REVISION, now};
use super::problem::{DUPLICATE, code, explain, is_passing, scrubbed};
use super::shrink;
use super::write::Ids;
use crate::record::TaskObject;
use crate::store::join::join_task;
use crate::{Error, ErrorKind, Result};

/// How long one command may take: a server that is slow is given time, and one that hangs is not waited for.
const LONGEST: Duration = Duration::from_secs(30);
/// Documents that one command inserts: few enough for a slow server.
const AT_ONCE: usize = 250;
/// How often a document is looked at again that others change too.
const ATTEMPTS: usize = 20;
/// Ids that are looked for at once.
const IDS: usize = 1000;

/// What is needed to put records into their collections.
pub(super) struct Putting<'a> {
    pub(super) connection: &'a Connection,
    pub(super) encoder: &'a mut Encoder,
    pub(super) ids: &'a mut Ids,
}

/// A task on its way, and its text.
pub(super) struct Task<'a> {
    pub(super) encoded: Encoded,
    pub(super) text: std::borrow::Cow<'a, str>,
}

/// Why one document of several was not inserted.
struct Failed {
    index: usize,
    code: i32,
    why: String,
}

impl Putting<'_> {
    pub(super) fn collections(&self) -> Collections {
        Collections::new(self.connection.database())
    }

    /// Stores tasks of which most are new.
    pub(super) fn tasks(&mut self, tasks: Vec<Task<'_>>) -> Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let (documents, texts): (Vec<_>, Vec<_>) = tasks
            .into_iter()
            .map(|task| (task.encoded.document, (task.encoded.id, task.text)))
            .unzip();
        let mut failed = Vec::new();
        let mut documents = documents.into_iter().peekable();
        let mut first = 0;
        while documents.peek().is_some() {
            let some: Vec<_> = documents.by_ref().take(AT_ONCE).collect();
            let count = some.len();
            let now = self.insert(self.collections().tasks(), some)?;
            failed.extend(now.into_iter().map(|it| Failed { index: first + it.index, ..it }));
            first += count;
        }
        let (known, refused): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|failed| failed.code == DUPLICATE);
        for failed in refused {
            let (id, text) = &texts[failed.index];
            self.put_sealed(id, text, &failed.why)?;
        }
        let known: Vec<_> = known.iter().map(|failed| &texts[failed.index]).collect();
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

    /// The document of a record that fits, whatever has to be left out of it.
    pub(super) fn fitting(&mut self, text: &str, label: &Label<'_>) -> Result<Encoded> {
        let encoded = self.encoder.encode(text, label)?;
        if encoded.document.as_bytes().len() <= shrink::LARGEST {
            return Ok(encoded);
        }
        let mut record = serde_json::from_str(text).map_err(not_json)?;
        let mut bytes = shrink::LARGEST / 2;
        loop {
            shrink::to(&mut record, bytes);
            let text = serde_json::to_string(&record).map_err(not_json)?;
            let encoded = self.encoder.encode(&text, label)?;
            // The last one keeps a dozen fields only.
            if encoded.document.as_bytes().len() <= shrink::LARGEST || bytes == 0 {
                return Ok(encoded);
            }
            bytes /= 4;
        }
    }

    /// Inserts documents, each by itself; tells which of them were not, and why.
    fn insert(
        &self,
        into: Collection<RawDocumentBuf>,
        documents: Vec<RawDocumentBuf>,
    ) -> Result<Vec<Failed>> {
        let shown = self.connection.shown().to_owned();
        self.connection.run_for(LONGEST, async move {
            let mut has_tried = false;
            loop {
                let mut options = InsertManyOptions::default();
                options.ordered = Some(false);
                let inserted = into.insert_many(&documents).with_options(options).await;
                let Err(error) = inserted else { return Ok(Vec::new()) };
                match &*error.kind {
                    Kind::InsertMany(many) if many.write_concern_error.is_none() => {
                        let failed = many.write_errors.iter().flatten();
                        return Ok(failed
                            .map(|one| Failed {
                                index: one.index,
                                code: one.code,
                                why: one.message.clone(),
                            })
                            .collect());
                    }
                    _ if is_passing(&error) && !has_tried => has_tried = true,
                    _ => return Err(explain(&shown, &error)),
                }
            }
        })
    }

    /// Runs one command; once more where that may help.
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
                // The server has understood, and refuses.
                Err(error) if code(&error).is_some() && !is_passing(&error) => Ok(Err(error)),
                Err(error) => Err(explain(&shown, &error)),
                Ok(value) => Ok(Ok(value)),
            }
        })
    }

    /// What is there of tasks, by the ids that are unique.
    fn stored(&self, ids: &[&str]) -> Result<HashMap<String, Stored>> {
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

    /// All documents that match.
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
        found.map_err(|error| explain(self.connection.shown(), &error))
    }

    /// Joins a task with what is there of it; gives what is there afterwards, if that changed.
    fn join(&mut self, id: &str, text: &str, known: Option<Stored>) -> Result<Option<Stored>> {
        let task: TaskObject = serde_json::from_str(text).map_err(not_json)?;
        let (mut known, mut copy) = (known, 1);
        for _ in 0..ATTEMPTS {
            let unique = if copy == 1 { id.to_owned() } else { format!("{id}#{copy}") };
            if known.is_none() {
                known = self.stored(&[&unique])?.remove(&unique);
            }
            let Some(there) = &known else {
                if self.insert_as(text, &unique, copy > 1)? {
                    return Ok(None);
                }
                continue;
            };
            let mut joined: TaskObject =
                serde_json::from_value(there.json.clone()).map_err(not_json)?;
            let is_other = joined.workflow_id != task.workflow_id
                || join_task(&mut joined, task.clone()).is_err();
            if is_other {
                // Both are kept, though only one can have the id.
                (known, copy) = (None, copy + 1);
                continue;
            }
            let json = serde_json::to_value(&joined).map_err(not_json)?;
            if json == there.json {
                return Ok(known);
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

    /// Inserts a task under an id; false where there is one by now.
    fn insert_as(&mut self, text: &str, unique: &str, is_copy: bool) -> Result<bool> {
        let mut label = Label::new(self.ids.next());
        label.unique_id = is_copy.then_some(unique);
        let document = self.fitting(text, &label)?.document;
        let failed = self.insert(self.collections().tasks(), vec![document])?;
        match failed.first() {
            None => Ok(true),
            Some(failed) if failed.code == DUPLICATE => Ok(false),
            Some(failed) => {
                let why = failed.why.clone();
                self.put_sealed(unique, text, &why)?;
                Ok(true)
            }
        }
    }

    /// Replaces a task that nobody has changed since; none where somebody has.
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
                id: raw(&known.id),
                revision,
                registered: known.registered.unwrap_or_else(now),
                unique_id: unique,
                is_sealed,
            };
            let document = self.fitting(&text, &label)?.document;
            let replaced = self.replace_in(Collections::tasks, known, document)?;
            match replaced {
                Ok(false) => return Ok(None),
                Ok(true) => {
                    return Ok(Some(Stored { revision: Some(revision), json, ..known.clone() }));
                }
                Err(error) if is_sealed => return Err(explain(self.connection.shown(), &error)),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Replaces a document that nobody has changed since; tells whether that was so.
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

    /// Stores what the server does not take as it is: its core, and its text.
    fn put_sealed(&mut self, id: &str, text: &str, why: &str) -> Result<()> {
        let label = Label { is_sealed: true, ..Label::new(self.ids.next()) };
        let document = self.fitting(text, &label)?.document;
        let failed = self.insert(self.collections().tasks(), vec![document])?;
        match failed.first() {
            None => Ok(()),
            Some(failed) if failed.code == DUPLICATE => {
                let known = self.stored(&[id])?.remove(id);
                self.join(id, text, known).map(|_| ())
            }
            Some(_) => self.refused(text, why),
        }
    }

    /// Keeps a record that the server does not want among the others, so that none of these is held up by it.
    pub(super) fn refused(&self, text: &str, why: &str) -> Result<()> {
        let end = (0..=text.len().min(shrink::LARGEST - 4096))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let hash = twox_hash::XxHash3_128::oneshot(text.as_bytes());
        let document = doc! {
            "_id": format!("{hash:032x}"), "why": crate::record::scrub(why), "json": &text[..end],
            "registered_at": mongodb::bson::DateTime::from_millis(now()),
        };
        let document = RawDocumentBuf::try_from(&document)
            .map_err(|error| Error::new(ErrorKind::Record, error.to_string()))?;
        let failed = self.insert(self.collections().refused(), vec![document])?;
        match failed.first() {
            Some(failed) if failed.code != DUPLICATE => {
                let text = format!("{} refuses a record: {}", self.connection.shown(), failed.why);
                Err(Error::new(ErrorKind::Store, crate::record::scrub(&text)))
            }
            _ => Ok(()),
        }
    }

    /// Inserts documents whose ids say all that is in them: those that are there already need not be written.
    pub(super) fn insert_known(
        &self,
        into: Collection<RawDocumentBuf>,
        documents: Vec<RawDocumentBuf>,
    ) -> Result<bool> {
        let failed = self.insert(into, documents)?;
        match failed.iter().find(|failed| failed.code != DUPLICATE) {
            Some(failed) => {
                let text = format!("{} refuses a record: {}", self.connection.shown(), failed.why);
                Err(Error::new(ErrorKind::Store, crate::record::scrub(&text)))
            }
            None => Ok(failed.is_empty()),
        }
    }

    /// What an error of the server's means for the store.
    pub(super) fn problem(&self, error: &DriverError) -> Error {
        let text = format!("{} refuses a record: {}", self.connection.shown(), scrubbed(error));
        Error::new(ErrorKind::Store, text)
    }
}

/// The id as it stands in a document.
pub(super) fn raw(id: &Bson) -> RawBsonRef<'_> {
    match id {
        Bson::ObjectId(id) => RawBsonRef::ObjectId(*id),
        Bson::String(id) => RawBsonRef::String(id),
        _ => RawBsonRef::Null,
    }
}

pub(super) fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Record, "a record is not JSON").with_source(error)
}
