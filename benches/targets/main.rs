//! Measures the performance targets: `cargo bench`, described in `docs/performance.md`.
//!
//! ```text
//! cargo bench                 every row, some minutes
//! cargo bench -- 2 3          these rows
//! cargo bench -- --quick      fewer rounds
//! ```
//!
//! A row is a module of [`rows`]: the contenders it runs and the lines it adds to the table. Each contender runs in
//! a process of its own, which is this program again; rounds of processes follow each other, so that whatever
//! else the machine does meets all contenders alike.

mod clock;
mod compare;
mod measure;
mod peers;
mod processor;
mod row;
mod rows;
mod table;

use std::process::ExitCode;

use row::Row;

/// What the command line asks for.
struct Asked {
    quick: bool,
    rows: Vec<&'static Row>,
    /// Set in a process that measures one contender: its row and name.
    contender: Option<(&'static Row, String)>,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}\nusage: cargo bench -- [--quick] [ROW…]");
            return ExitCode::FAILURE;
        }
    };
    if let Some((row, name)) = asked.contender {
        return compare::run_contender(row, &name);
    }
    let measured = compare::measure(&asked.rows, asked.quick);
    let lines = table::judge(&asked.rows, &measured);
    table::print(&lines, &measured);
    match table::save(&lines, &measured) {
        Ok(path) => eprintln!("\nwritten to {}", path.display()),
        Err(error) => eprintln!("\nthe results cannot be saved: {error}"),
    }
    if measured.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { quick: false, rows: Vec::new(), contender: None };
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo says this to every bench.
            "--bench" => {}
            "--quick" => asked.quick = true,
            compare::CONTENDER => {
                let named = args.next().unwrap_or_default();
                let (row, name) = named.split_once('/').ok_or("a contender is `row/name`")?;
                asked.contender = Some((row_of(row)?, name.to_owned()));
            }
            row => asked.rows.push(row_of(row)?),
        }
    }
    if asked.rows.is_empty() {
        asked.rows = rows::ALL.to_vec();
    }
    Ok(asked)
}

fn row_of(number: &str) -> Result<&'static Row, String> {
    let found = rows::ALL.iter().find(|row| row.number.to_string() == number).copied();
    found.ok_or_else(|| {
        let known: Vec<_> = rows::ALL.iter().map(|row| row.number.to_string()).collect();
        format!("there is no row `{number}`; there are {}", known.join(", "))
    })
}
