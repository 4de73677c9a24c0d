//! Reads documents from the server, one page at a time, and converts them to records.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{AggregateOptions, FindOptions};
use serde_json::Value;

use super::address::Address;
use super::collections::Collections;
use super::connection::{Connection, Link};
use super::decode::Stored;
use super::problem::explain;
use runlore_core::settings::Settings;
use runlore_core::store::before_asking;
use runlore_core::{Error, ErrorKind, Result};
use runlore_query::query::Collection;

/// The size of the first page and the maximum size: callers often need only a few documents.
const PAGES: (usize, usize) = (64, 1024);

/// A MongoDB database of records, opened for reading. Records that wait for it in this machine's
/// spool are written first.
pub struct MongodbSource {
    link: Link,
}

impl fmt::Debug for MongodbSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MongodbSource").field(&self.link.address().shown()).finish()
    }
}

impl MongodbSource {
    /// Opens a database: `mongodb://host:27017/database`, with any other options of a connection
    /// string. The user and encryption from the settings apply only to the server named there.
    ///
    /// # Errors
    ///
    /// Returns an error if no server answers, or if it refuses the connection.
    pub fn open(uri: &str) -> Result<Self> {
        let address = Address::new(uri, &Settings::load().settings.databases.mongodb)?;
        let source = Self { link: Link::new(address) };
        let connection = source.link.get()?;
        let shown = connection.shown().to_owned();
        let tasks = Collections::new(connection.database()).tasks();
        connection.run(async move {
            let one = tasks.find_one(doc! {}).projection(doc! {"_id": 1}).await;
            one.map(|_| ()).map_err(|error| explain(&shown, &error))
        })?;
        before_asking(uri);
        Ok(source)
    }

    pub(super) fn connection(&self) -> Result<Arc<Connection>> {
        self.link.get()
    }

    /// Returns whether a document matches the filter.
    pub(super) fn has(&self, of: Collection, filter: Document) -> Result<bool> {
        let connection = self.connection()?;
        let collection = Collections::new(connection.database()).of(of);
        let shown = connection.shown().to_owned();
        connection.run(async move {
            let one = collection.find_one(filter).projection(doc! {"_id": 1}).await;
            Ok(one.map_err(|error| explain(&shown, &error))?.is_some())
        })
    }

    /// Returns the server's plan for a query.
    pub(super) fn explained(
        &self,
        of: Collection,
        filter: Document,
        options: FindOptions,
    ) -> Result<Value> {
        let connection = self.connection()?;
        let database = connection.database();
        let name = Collections::new(database.clone()).of(of).name().to_owned();
        let mut find = doc! {"find": name, "filter": filter};
        let sort = options.sort.map(Bson::from);
        let limit = options.limit.map(Bson::from);
        let skip = options.skip.and_then(|skip| i64::try_from(skip).ok()).map(Bson::from);
        let projection = options.projection.map(Bson::from);
        let said = [("sort", sort), ("limit", limit), ("skip", skip), ("projection", projection)];
        find.extend(said.into_iter().filter_map(|(name, said)| Some((name.to_owned(), said?))));
        let shown = connection.shown().to_owned();
        let plan = connection.run(async move {
            let command = doc! {"explain": find, "verbosity": "queryPlanner"};
            database.run_command(command).await.map_err(|error| explain(&shown, &error))
        })?;
        Ok(serde_json::to_value(plan).unwrap_or_default())
    }

    /// Returns an error that reports the records which the server refused. `None` if there are
    /// none.
    pub(super) fn refused(&self) -> Result<Option<Error>> {
        let connection = self.connection()?;
        let refused = Collections::new(connection.database()).refused();
        let shown = connection.shown().to_owned();
        let count = connection.run(async move {
            let count = refused.count_documents(doc! {}).await;
            count.map_err(|error| explain(&shown, &error))
        })?;
        let records = if count == 1 { "record" } else { "records" };
        let text = format!(
            "{} has refused {count} {records}: see why in its collection refused_records",
            connection.shown()
        );
        Ok((count > 0).then(|| Error::new(ErrorKind::Record, text)))
    }

    /// Queries documents.
    pub(super) fn found(
        &self,
        of: fn(&Collections) -> mongodb::Collection<RawDocumentBuf>,
        filter: Document,
        options: FindOptions,
    ) -> Result<Pages> {
        let connection = self.connection()?;
        let collection = of(&Collections::new(connection.database()));
        let shown = connection.shown().to_owned();
        let cursor = connection.run(async move {
            let found = collection.find(filter).with_options(options).await;
            found.map_err(|error| explain(&shown, &error))
        })?;
        Ok(Pages::new(connection, cursor))
    }

    /// Runs a pipeline on the server. `None` if the server rejects the pipeline, which means that
    /// it does not support it.
    pub(super) fn aggregated(
        &self,
        of: Collection,
        pipeline: Vec<Document>,
    ) -> Result<Option<Pages>> {
        let connection = self.connection()?;
        let collection = Collections::new(connection.database()).of(of);
        let shown = connection.shown().to_owned();
        let cursor = connection.run(async move {
            let mut options = AggregateOptions::default();
            options.allow_disk_use = Some(true);
            let answer = collection.aggregate(pipeline).with_options(options);
            match answer.with_type::<RawDocumentBuf>().await {
                Ok(cursor) => Ok(Some(cursor)),
                Err(error) if is_refusal(&error) => Ok(None),
                Err(error) => Err(explain(&shown, &error)),
            }
        })?;
        Ok(cursor.map(|cursor| Pages::new(connection, cursor)))
    }
}

/// Returns whether the server rejects the query itself.
fn is_refusal(error: &mongodb::error::Error) -> bool {
    const UNAUTHORIZED: i32 = 13;
    super::problem::code(error).is_some_and(|code| code != UNAUTHORIZED)
        && !super::problem::is_passing(error)
}

/// An iterator over documents, which it reads from the server page by page.
pub(super) struct Pages {
    connection: Arc<Connection>,
    /// `None` after the last page.
    cursor: Option<Cursor<RawDocumentBuf>>,
    page: VecDeque<RawDocumentBuf>,
    size: usize,
}

impl Pages {
    fn new(connection: Arc<Connection>, cursor: Cursor<RawDocumentBuf>) -> Self {
        Self { connection, cursor: Some(cursor), page: VecDeque::new(), size: PAGES.0 }
    }

    fn next_page(&mut self) -> Result<()> {
        let Some(mut cursor) = self.cursor.take() else { return Ok(()) };
        let size = self.size;
        self.size = (size * 4).min(PAGES.1);
        let shown = self.connection.shown().to_owned();
        let (page, cursor) = self.connection.run(async move {
            let mut page = VecDeque::with_capacity(size);
            while page.len() < size {
                match cursor.advance().await.map_err(|error| explain(&shown, &error))? {
                    true => page.push_back(cursor.current().to_owned()),
                    false => return Ok((page, None)),
                }
            }
            Ok((page, Some(cursor)))
        })?;
        (self.page, self.cursor) = (page, cursor);
        Ok(())
    }

    /// Converts each document to its record, together with its id.
    pub(super) fn stored(self) -> impl Iterator<Item = Result<Stored>> {
        self.map(|document| Stored::of(&document?))
    }

    /// Converts each document to its record.
    pub(super) fn records(self) -> impl Iterator<Item = Result<Value>> {
        self.stored().map(|stored| Ok(stored?.json))
    }

    /// Converts each document to JSON, without restoring the record.
    pub(super) fn answers(self) -> impl Iterator<Item = Result<Value>> {
        self.map(|document| super::decode::json_of(mongodb::bson::RawBsonRef::Document(&document?)))
    }
}

impl Iterator for Pages {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty()
            && let Err(error) = self.next_page()
        {
            return Some(Err(error));
        }
        self.page.pop_front().map(Ok)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            self.connection.drop_there(cursor);
        }
    }
}

/// Parses the record from a document that contains it as text.
pub(super) fn from_text(document: &RawDocumentBuf) -> Result<Value> {
    let text = document.get_str("json").unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Record, "the text of a record is not JSON").with_source(error)
    })
}
