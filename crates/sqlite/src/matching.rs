//! The query language's regular expressions as an SQL function, so that `$regex` can be tested on
//! a column without reading every record.

use std::error::Error;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use runlore_query::engine::regex::Pattern;

/// The name of the function. Its arguments are the pattern, its options and a text.
pub(super) const MATCHES: &str = "runlore_matches";

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(MATCHES, 3, flags, |context| {
        // Compile once per statement: pattern and options are the same for all rows.
        let pattern: Arc<Pattern> = context.get_or_create_aux(0, |source| {
            let options: String = context.get(1)?;
            Ok::<_, Box<dyn Error + Send + Sync>>(Pattern::new(source.as_str()?, &options)?)
        })?;
        let text: Option<&str> = context.get_raw(2).as_str_or_null()?;
        Ok(text.is_some_and(|text| pattern.is_match(text)))
    })
}
