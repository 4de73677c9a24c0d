//! `databases.mongodb` in the settings: where records go when the program does not say.

use std::process::Command;

use mongodb::bson::{Document, doc};
use runlore::Provenance;
use tempfile::TempDir;

use crate::mongo_server::{Server, Want, data, queues, stored, until_stored, with_driver};
use crate::support::{bare_child, expect_success, finished_in_time, is_child};

const RECORDS: &str = "mongodb_settings::records_where_the_settings_say";

#[test]
fn records_where_the_settings_say() {
    if !is_child(RECORDS) {
        return;
    }
    let run = runlore::workflow("w").start().unwrap();
    runlore::task("load").run(|| ());
    if std::env::var("IS_IN_VAIN").is_err() {
        until_stored();
    }
    run.finish().unwrap();
}

/// A program with these keys below `databases.mongodb`.
struct Program {
    command: Command,
    folder: TempDir,
}

impl Program {
    fn with(server: &Server, keys: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = bare_child(RECORDS);
        command.current_dir(folder.path());
        let host = server.host();
        let (host, port) = host.split_once(':').unwrap();
        let always = [("ENABLED", "yes"), ("HOST", host), ("PORT", port), ("DB", "lab")];
        for (key, value) in always.iter().chain(keys) {
            command.env(format!("RUNLORE_DATABASES__MONGODB__{key}"), value);
        }
        Self { command, folder }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// The folder that it stood in, and what it said.
    fn run(self) -> (TempDir, String) {
        let output = finished_in_time(self.command);
        expect_success(&output);
        (self.folder, String::from_utf8(output.stderr).unwrap())
    }
}

fn files(folder: &TempDir) -> usize {
    let entries = std::fs::read_dir(folder.path().join("runlore")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "jsonl")).count()
}

fn tasks(uri: &str) -> usize {
    stored(uri, "tasks").len()
}

fn indexes(uri: &str) -> usize {
    with_driver(uri, async |database| {
        let names = database.collection::<Document>("tasks").list_index_names().await?;
        Ok(names.len())
    })
}

#[test]
fn records_go_to_the_server_that_is_named_and_to_files_where_these_are_on() {
    let Some(server) = Server::start(&[]) else { return };
    let off = ("RUNLORE_DATABASES__JSONL__ENABLED", "no");
    let (folder, _) =
        Program::with(&server, &[("CREATE_COLLECTION_INDEX", "no")]).env(off.0, off.1).run();
    let uri = server.uri("lab");
    assert_eq!((files(&folder), tasks(&uri), indexes(&uri)), (0, 1, 1));
    let (folder, _) = Program::with(&server, &[]).run();
    assert_eq!((files(&folder), tasks(&uri)), (1, 2));
    assert!(indexes(&uri) > 5);
    // A whole connection string instead of host and port.
    let uri = server.uri("other");
    let (_, _) = Program::with(&server, &[("URI", &uri), ("HOST", "no-such-host.invalid")]).run();
    assert_eq!(tasks(&uri), 1);
}

#[test]
fn a_user_signs_in_with_the_password_of_the_variable_that_is_named() {
    let Some(mut server) = Server::start(&[Want::Durability]) else { return };
    with_driver(&server.uri("admin"), async |database| {
        let user = doc! {"createUser": "ann", "pwd": "right-one", "roles": ["root"]};
        database.run_command(user).await
    });
    server.kill();
    server.restart(&[Want::Durability, Want::Users]);
    let signed_in = |password: &str| {
        let keys = [("USERNAME", "ann"), ("PASSWORD_ENV", "LAB_PASSWORD")];
        Program::with(&server, &keys).env("LAB_PASSWORD", password)
    };
    signed_in("right-one").run();
    let uri = format!("mongodb://ann:right-one@{}/lab?authSource=admin", server.host());
    assert_eq!(Provenance::open(&uri).unwrap().tasks().count().unwrap(), 1);
    let (folder, said) = signed_in("wrong-one").env("IS_IN_VAIN", "yes").run();
    assert!(said.contains("refuses the user or the password"), "{said}");
    assert!(!said.contains("wrong-one"), "{said}");
    assert!(queues(&folder).join(".spool").exists());
    assert_eq!(Provenance::open(&uri).unwrap().tasks().count().unwrap(), 1);
    // Nothing can be sent without the password; the program runs all the same.
    let keys = [("USERNAME", "ann"), ("PASSWORD_ENV", "NO_SUCH_PASSWORD")];
    let (_, said) = Program::with(&server, &keys).env("IS_IN_VAIN", "yes").run();
    assert!(said.contains("names the variable NO_SUCH_PASSWORD, which is not set"), "{said}");
}

#[test]
fn a_connection_is_encrypted_as_the_settings_say() {
    let Some(server) = Server::start(&[Want::Encryption]) else { return };
    let authority = data("ca.pem");
    let authority = authority.to_str().unwrap();
    Program::with(&server, &[("TLS", "yes"), ("TLS_CA_FILE", authority)]).run();
    assert_eq!(tasks(&server.uri("lab")), 1);
    // An authority that is not trusted.
    Program::with(&server, &[("TLS", "yes")]).env("IS_IN_VAIN", "yes").run();
    assert_eq!(tasks(&server.uri("lab")), 1);
}
