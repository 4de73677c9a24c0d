//! Settings: where they are found, how they merge, and what is said about what is wrong with them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use runlore::settings::{
    Durability, HashKind, LoopMode, ModelScope, Origin, Search, Settings, Severity,
};

use serde_json::{Value, json};

use crate::support::{Cases, LIMIT, Random, tried};

fn of(text: &str) -> runlore::settings::Loaded {
    Search::nowhere().text("settings.yaml", text).load()
}

fn told(text: &str) -> String {
    of(text).problems().iter().fold(String::new(), |mut told, problem| {
        writeln!(told, "{:?} {problem}", problem.severity).unwrap();
        told
    })
}

#[test]
fn a_file_of_flowcepts_loads_with_one_notice() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept_settings.yaml");
    let text = fs::read_to_string(path).unwrap();
    let loaded = of(&text);
    let [notice] = loaded.problems() else { panic!("{:#?}", loaded.problems()) };
    assert_eq!(notice.severity, Severity::Notice);
    insta::assert_snapshot!(notice);

    let settings = loaded.settings;
    let telemetry = &settings.telemetry_capture;
    assert!(telemetry.cpu && telemetry.per_cpu && telemetry.process_info && telemetry.mem);
    assert!(!telemetry.disk && !telemetry.network && telemetry.gpu.is_empty());
    let ml = &settings.instrumentation.ml;
    assert_eq!(ml.what, Some(ModelScope::ParentOnly));
    assert_eq!((ml.epoch_loop, ml.batch_loop), (Some(LoopMode::Default), None));
    assert_eq!(ml.capture_epochs_at_every, 2);
    assert!(!ml.register_workflow);
    assert_eq!(settings.sys_metadata.environment_id.as_deref(), Some("laptop"));
    assert_eq!(settings.sys_metadata.node_name.as_deref(), Some("7"));
    assert_eq!(settings.extra_metadata["project"]["year"], 2026);
    assert_eq!(settings.databases.mongodb.db, "flowcept");
    assert_eq!(settings.experiment.user, None, "nothing is filled in");
}

/// Every way in which a file can be wrong, by what is wrong with it.
const WRONG: &[(&str, &str)] = &[
    ("a key with a slip", "telemetry_capture:\n  mem: no\n  cpus: no"),
    ("a section with a slip", "telemetry_captures:\n  cpu: no"),
    ("a key of another section", "recorder:\n  cpu: no"),
    ("a stranger", "instrumentation:\n  limits:\n    zebra: 1"),
    ("a password where a name is wanted", "databases:\n  mongodb:\n    password: hunter2"),
    ("not a boolean", "telemetry_capture:\n  cpu: maybe\n  mem: 1\n  disk: [1]\n  network: {a: b}"),
    ("not a list", "telemetry_capture:\n  gpu: {used: yes}\n  environment: [[PATH]]"),
    ("not a choice", "telemetry_capture:\n  backend: windows\nrecorder:\n  durability: 1"),
    ("not a size", "recorder:\n  ring_bytes: many\n  budget_bytes: -1\n  backlog_bytes: 1.5"),
    ("not a time", "recorder:\n  flush_ms: 200 parsecs\n  max_wait_ms: yes"),
    (
        "not a number",
        "instrumentation:\n  limits: {items: ten, depth: -1}\ndatabases: {mongodb: {port: 70000}}",
    ),
    ("not text", "experiment:\n  user: [me]\nsys_metadata:\n  node_name: 1.5"),
    ("not a path", "databases:\n  jsonl:\n    path: ''\n  sqlite:\n    path: [a]"),
    ("not a percentage", "telemetry_capture:\n  max_overhead_percent: much"),
    ("not a section", "telemetry_capture: on\ninstrumentation: [a]\nextra_metadata: 3"),
    ("not settings at all", "- a\n- b"),
    ("a single word", "hello"),
    ("the same key twice", "telemetry_capture:\n  cpu: no\n  cpu: yes\ntelemetry_capture: {}"),
    (
        "out of range",
        "recorder:\n  ring_bytes: 1KiB\n  flush_records: 0\n  flush_ms: 0\n  max_wait_ms: 2h",
    ),
    ("not a power of two", "recorder:\n  ring_bytes: 300KiB"),
    ("more for one than for all", "recorder:\n  ring_bytes: 64MiB\n  budget_bytes: 1MiB"),
    ("limits that are none", "instrumentation:\n  limits: {value_bytes: 1, items: 0, depth: 1000}"),
    (
        "a slip that would delete all",
        "databases:\n  jsonl: {keep_files: 0, keep_days: 0, rotate_bytes: 1}",
    ),
    ("a time without its unit", "databases:\n  jsonl: {rotate_age: 24, keep_bytes: 0}"),
    ("more than everything", "telemetry_capture:\n  max_overhead_percent: 200"),
    ("a secret in the wrong place", "recorder:\n  when_full: mongodb://me:hunter2@host/"),
    (
        "something to fill in",
        "experiment:\n  user: ${USER}\ntelemetry_capture:\n  gpu: ['${metrics}']",
    ),
    ("a metric over two lines", "telemetry_capture:\n  gpu: [\"a\\nb\"]"),
    ("a section to fill in", "telemetry_capture: ${telemetry}"),
    ("an empty file", ""),
    ("only comments", "# telemetry_capture:\n#   cpu: no\n"),
    ("a tab", "telemetry_capture:\n\tcpu: no"),
    ("a bracket left open", "telemetry_capture: {cpu: no"),
    ("indented wrongly", "telemetry_capture:\n  cpu: no\n mem: no"),
    ("two documents", "telemetry_capture: {}\n---\nrecorder: {}"),
    ("an alias of nothing", "telemetry_capture: *base"),
    ("a tag", "telemetry_capture: !python/object:os.system {cpu: no}"),
    ("an alias of itself", "extra_metadata: &a\n  b: *a"),
];

#[test]
fn what_is_wrong_is_told_in_one_sentence_each() {
    let mut all = String::new();
    for (what, text) in WRONG {
        let told = told(text);
        assert!(!told.is_empty(), "{what}: nothing was said");
        assert!(!told.contains("hunter2"), "{what}: {told}");
        writeln!(all, "{what}\n{told}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn what_cannot_be_leaves_what_was_below_it() {
    let loaded = Search::nowhere()
        .text("settings.yaml", "recorder: {ring_bytes: 1MiB, flush_ms: 50, budget_bytes: 8MiB}")
        .variables([
            ("RUNLORE_RECORDER__RING_BYTES", "3"),
            ("RUNLORE_RECORDER__FLUSH_MS", "2h"),
            ("RUNLORE_RECORDER__BUDGET_BYTES", "1KiB"),
        ])
        .load();
    assert_eq!(loaded.problems().len(), 3, "{:?}", loaded.problems());
    let recorder = &loaded.settings.recorder;
    assert_eq!((recorder.ring_bytes.get(), recorder.flush_ms.as_millis()), (1 << 20, 50));
    let keys = loaded.keys();
    let origin = |path: &str| keys.iter().find(|key| key.path == path).unwrap().origin.to_string();
    assert_eq!(origin("recorder.ring_bytes"), "settings.yaml:1");
    // What one key allows may be said by a layer above.
    assert_eq!(recorder.budget_bytes.get(), 64 << 20, "the default");
    assert_eq!(origin("recorder.budget_bytes"), "default");
}

#[test]
fn what_is_right_is_used_beside_what_is_wrong() {
    let text = "telemetry_capture:\n  cpu: maybe\n  mem: no\nrecorder:\n  ring_bytes: 3\n  flush_records: 7";
    let loaded = of(text);
    assert_eq!(loaded.problems().len(), 2);
    assert!(!loaded.is_fine());
    assert!(loaded.settings.telemetry_capture.cpu, "the default");
    assert!(!loaded.settings.telemetry_capture.mem);
    assert_eq!(loaded.settings.recorder.ring_bytes.get(), 512 << 10, "the default");
    assert_eq!(loaded.settings.recorder.flush_records, 7);
    let error = loaded.strict().unwrap_err();
    assert_eq!(error.kind(), runlore::ErrorKind::Settings);
}

#[test]
fn words_units_and_merges_are_understood() {
    let loaded = of("\u{feff}base: &base {cpu: OFF, mem: No}\n");
    assert_eq!(loaded.problems().len(), 1, "only the unknown section: {:?}", loaded.problems());

    let loaded = of("
telemetry_capture: &base
  cpu: 'no'
  mem: OFF
  disk: Yes
  max_age: 1.5 s
  max_overhead_percent: 5
  gpu: used
  environment: [PATH, 1]
recorder: {ring_bytes: 131072, flush_ms: 50, max_wait_ms: 1s, durability: system}
extra_metadata:
  <<: {a: 1, b: 2}
  b: 3
");
    assert_eq!(loaded.problems(), []);
    let settings = loaded.settings;
    let telemetry = &settings.telemetry_capture;
    assert!(!telemetry.cpu && !telemetry.mem && telemetry.disk);
    assert_eq!(telemetry.max_age, Duration::from_millis(1500));
    assert_eq!(telemetry.max_overhead_percent, Some(5.0));
    assert_eq!(
        (&*telemetry.gpu, &*telemetry.environment),
        (&["used".into()][..], &["PATH".into(), "1".into()][..])
    );
    let recorder = &settings.recorder;
    assert_eq!((recorder.ring_bytes.get(), recorder.flush_ms.as_millis()), (131_072, 50));
    assert_eq!((recorder.max_wait_ms.as_secs(), recorder.durability), (1, Durability::System));
    assert_eq!(json!(settings.extra_metadata), json!({"a": 1, "b": 3}));
}

#[test]
fn nothing_turns_off_and_leaves_alone() {
    let loaded = of(
        "telemetry_capture: {cpu: ~, mem: [], gpu: no}\nrecorder: {ring_bytes: ~}\ndatabases:\n",
    );
    assert_eq!(loaded.problems(), []);
    assert!(!loaded.settings.telemetry_capture.cpu && !loaded.settings.telemetry_capture.mem);
    assert_eq!(loaded.settings.recorder.ring_bytes.get(), 512 << 10);
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder.yaml")).unwrap();
    fs::write(at("latin.yaml"), b"telemetry_capture:\n  cpu: no # gr\xfcn").unwrap();
    fs::write(at("utf16.yaml"), [0xff, 0xfe, b'a', 0]).unwrap();
    fs::write(at("long.yaml"), vec![b'#'; 300 << 10]).unwrap();
    let mut names = vec!["none.yaml", "folder.yaml", "latin.yaml", "utf16.yaml", "long.yaml"];
    #[cfg(unix)]
    {
        let made = std::process::Command::new("mkfifo").arg(at("pipe.yaml")).status();
        assert!(made.unwrap().success());
        names.push("pipe.yaml");
    }
    let mut all = String::new();
    for name in names {
        let loaded = Search::nowhere().path(at(name)).load();
        assert_eq!(loaded.settings, Settings::default());
        let [problem] = loaded.problems() else { panic!("{:?}", loaded.problems()) };
        writeln!(all, "{problem}").unwrap();
    }
    let all = all.replace(&format!("{}/", folder.path().display()), "");
    insta::assert_snapshot!(all);
    assert_eq!(Search::nowhere().path("/dev/null").load().settings, Settings::default());
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    fs::write(&path, "telemetry_capture: {cpu: no}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(&path).is_ok() {
        return; // Root reads everything.
    }
    let loaded = Search::nowhere().path(&path).load();
    assert!(loaded.problems()[0].to_string().ends_with("cannot be read: permission denied"));
}

#[test]
fn bombs_do_not_go_off() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let before = format!("*a{},", level - 1).repeat(9);
        writeln!(laughs, "a{level}: &a{level} [{before}]").unwrap();
    }
    let wide = format!("a: &a [{}]\nb: [{}]", "1,".repeat(9_000), "*a,".repeat(9_000));
    let keys: String = (0..15_000).map(|at| format!("k{at}: 1\n")).collect();
    let merges = format!("a: &a {{{}}}\nb:\n{}", keys.replace('\n', ", "), "  <<: *a\n".repeat(50));
    let cases = [
        ("laughs", laughs),
        ("wide", wide),
        ("merges", merges),
        ("unknown keys", keys),
        ("a wrong section", format!("recorder:\n{}", "  x: 1\n".repeat(9_000))),
        ("brackets", "[".repeat(250_000)),
        ("brackets of our own", format!("extra_metadata: {}", "[".repeat(10_000))),
        (
            "closed brackets",
            format!("extra_metadata: {}{}", "[".repeat(10_000), "]".repeat(10_000)),
        ),
        ("braces", "{a: ".repeat(60_000)),
        ("dashes", "- ".repeat(120_000)),
        ("questions", "? ".repeat(120_000)),
        ("indented", (0..700).map(|at| format!("{}a:\n", " ".repeat(at))).collect()),
        ("one long line", "a".repeat(250_000)),
        ("quotes", format!("a: \"{}\"", "\\\\".repeat(100_000))),
        ("a long key", format!("{}: 1", "k".repeat(100_000))),
    ];
    for (what, text) in cases {
        let began = Instant::now();
        let loaded = of(&text);
        assert!(!loaded.problems().is_empty(), "{what}: nothing was said");
        let problems = loaded.problems();
        assert!(problems.len() <= 21, "{what}: {} problems", problems.len());
        assert!(
            problems.iter().all(|problem| problem.to_string().len() < 400),
            "{what}: {}",
            problems[0]
        );
        assert_eq!(loaded.settings, Settings::default(), "{what}");
        assert!(began.elapsed() < LIMIT, "{what}: took {:?}", began.elapsed());
    }
}

#[test]
fn a_bomb_is_told_by_its_name() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        writeln!(text, "a{level}: &a{level} [{}]", format!("*a{},", level - 1).repeat(9)).unwrap();
    }
    let deep = |levels| format!("extra_metadata: {}{}", "[".repeat(levels), "]".repeat(levels));
    insta::assert_snapshot!([told(&text), told(&deep(1_000)), told(&deep(10_000))].concat());
}

#[test]
fn the_nearest_place_has_the_last_word() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let user = write("user.yaml", "telemetry_capture: {cpu: no, mem: no}\nexperiment: {user: ada}");
    write("settings.yaml", "telemetry_capture:\n  mem: yes\n  disk: yes\n  network: yes");
    let other = write("other.yaml", "telemetry_capture: {machine_info: no}");
    let search = || Search::nowhere().user_file(&user).folder(folder.path());
    let network = ("RUNLORE_TELEMETRY_CAPTURE__NETWORK", "off");

    let loaded = search().variables([network]).load();
    assert_eq!(loaded.problems(), []);
    let origin = |path: &str| {
        let key = loaded.keys().into_iter().find(|key| key.path == path).unwrap();
        let origin = key.origin.to_string().replace(&format!("{}/", folder.path().display()), "");
        format!("{} {origin}", key.value)
    };
    assert_eq!(origin("telemetry_capture.cpu"), "false user.yaml:1");
    assert_eq!(origin("telemetry_capture.mem"), "true settings.yaml:2");
    assert_eq!(origin("telemetry_capture.disk"), "true settings.yaml:3");
    assert_eq!(origin("telemetry_capture.network"), "false $RUNLORE_TELEMETRY_CAPTURE__NETWORK");
    assert_eq!(origin("telemetry_capture.process_info"), "true default");
    assert_eq!(origin("experiment.user"), "\"ada\" user.yaml:2");
    assert_eq!(loaded.files().count(), 2);

    // A file that is named stands alone.
    for loaded in [
        search().path(&other).load(),
        search().variables([("RUNLORE_SETTINGS_PATH", other.to_str().unwrap())]).load(),
    ] {
        assert_eq!(loaded.problems(), []);
        assert_eq!(loaded.files().collect::<Vec<_>>(), [&*other]);
        let telemetry = loaded.settings.telemetry_capture;
        assert!(telemetry.cpu && !telemetry.disk && !telemetry.machine_info);
    }
    let missing = search().variables([("RUNLORE_SETTINGS_PATH", "/no/such.yaml")]).load();
    assert_eq!(missing.problems()[0].to_string(), "/no/such.yaml: there is no such file");
    assert_eq!(missing.settings, Settings::default());
    let empty = search().variables([("RUNLORE_SETTINGS_PATH", "")]).load();
    assert_eq!(empty.files().count(), 2);
}

#[test]
fn the_settings_of_other_programs_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &[u8]| {
        fs::write(folder.path().join("settings.yaml"), text).unwrap();
        let loaded = Search::nowhere().folder(folder.path()).load();
        (loaded.files().count(), loaded.problems().len())
    };
    for foreign in [
        "",
        "# nothing",
        "debug: true\nport: 80",
        "databases:\n  default: {engine: postgres}",
        "databases:\n  mongodb: {host: a, port: 1, name: b}",
        "experiment: 7",
        "- a\n- b",
        "{% if x %}\nfoo: {{ bar }}",
        "a: b: c",
        "\tx",
    ] {
        assert_eq!(load(foreign.as_bytes()), (0, 0), "{foreign}");
    }
    assert_eq!(load(b"\xff\xfe\x00"), (0, 0));
    for ours in [
        "telemetry_capture: {cpu: no}",
        "databases: {jsonl: {path: data}}",
        "experiment: {user: ada}",
        "recorder:",
        "other: 1\ninstrumentation: {}",
        "telemetry_capture:\n  cpu: [",
    ] {
        assert_eq!(load(ours.as_bytes()).0, 1, "{ours}");
    }
    fs::remove_file(folder.path().join("settings.yaml")).unwrap();
    fs::create_dir(folder.path().join("settings.yaml")).unwrap();
    let loaded = Search::nowhere().folder(folder.path()).load();
    assert_eq!((loaded.files().count(), loaded.problems().len()), (0, 0));
}

#[test]
fn any_key_is_set_by_a_variable() {
    let mut load = Vec::new();
    for (path, value) in Settings::default().keys() {
        let name = format!("RUNLORE_{}", path.to_uppercase().replace('.', "__"));
        load.push((name, value.to_string()));
    }
    let loaded = Search::nowhere().variables(load.clone()).load();
    assert_eq!(loaded.problems(), []);
    assert_eq!(loaded.settings, Settings::default());
    let by_variable = |origin: &Origin| matches!(origin, Origin::Variable(_));
    let not_set: Vec<_> = loaded
        .keys()
        .into_iter()
        .filter(|key| !by_variable(&key.origin))
        .map(|key| key.path)
        .collect();
    assert_eq!(not_set, ["extra_metadata"], "all but the one that is a section without keys");
}

#[test]
fn variables_hold_scalars_lists_and_text() {
    let loaded = Search::nowhere()
        .variables([
            ("RUNLORE_TELEMETRY_CAPTURE__GPU", "[used, id]"),
            ("RUNLORE_INSTRUMENTATION__LIMITS__ITEMS", "12"),
            ("RUNLORE_INSTRUMENTATION__HASH", "none"),
            ("RUNLORE_EXPERIMENT__USER", "@ada: the first"),
            ("RUNLORE_SYS_METADATA", "{sys_name: x, node_name: 'y z'}"),
            ("RUNLORE_EXTRA_METADATA__RUN", "7"),
            ("RUNLORE_RECORDER__RING_BYTES", ""),
            ("RUNLORE_DATABASES__MONGODB__URI", "mongodb://a:b@h:1/?x=y#z"),
        ])
        .load();
    assert_eq!(loaded.problems(), []);
    let settings = loaded.settings;
    assert_eq!(settings.telemetry_capture.gpu, ["used", "id"]);
    assert_eq!(settings.instrumentation.limits.items, 12);
    assert_eq!(settings.instrumentation.hash, HashKind::None);
    assert_eq!(settings.experiment.user.as_deref(), Some("@ada: the first"));
    assert_eq!(settings.sys_metadata.node_name.as_deref(), Some("y z"));
    assert_eq!(settings.extra_metadata["run"], 7);
    assert_eq!(settings.recorder.ring_bytes.get(), 512 << 10);
    assert_eq!(settings.databases.mongodb.uri.as_deref(), Some("mongodb://a:b@h:1/?x=y#z"));
}

#[test]
fn a_wrong_variable_is_told_and_a_foreign_one_is_not() {
    let loaded = Search::nowhere()
        .variables([
            ("RUNLORE_TELEMETRY_CAPTURE__CPUS", "no"),
            ("RUNLORE_TELEMETRY_CAPTURE__CPU", "maybe"),
            ("RUNLORE_TELEMETRY_CAPTURE_MEM", "no"),
            ("RUNLORE_TELEMETRY_CAPTURE", "no"),
            ("RUNLORE_TELEMETRY__CPU", "no"),
            ("RUNLORE_RECORDER__RING_BYTES", "5"),
            ("RUNLORE_MQ__HOST", "localhost"),
            ("RUNLORE_STORE", "somewhere"),
            ("RUNLORE_CONTEXT", "{}"),
            ("RUNLORE_GIT_COMMIT", "abc"),
            ("RUNLORE_TEST_MONGODB_URI", "x"),
            ("RUNLORE_SOMETHING", "x"),
            ("PATH__CPU", "x"),
        ])
        .load();
    let told: Vec<String> = loaded.problems().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"));
    assert_eq!(loaded.settings, Settings::default());
}

#[test]
fn the_schema_for_editors_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/core/settings.schema.json");
    let written: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        written,
        runlore::settings::schema(),
        "run `cargo run -p runlore-cli -- settings schema > settings.schema.json`"
    );
}

/// Settings cut, doubled, swapped and spoilt at random: no crash, no hang, and the same answer twice.
/// `RUNLORE_TEST_CASES=1000000` looks longer; `RUNLORE_TEST_SEED` looks elsewhere.
#[test]
fn no_mutation_breaks_the_reader() {
    let mut cases = Cases::new(10_000);
    let mut random = Random::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept_settings.yaml");
    let seeds: Vec<String> =
        [runlore::settings::DEFAULT_YAML.to_owned(), fs::read_to_string(path).unwrap()]
            .into_iter()
            .chain(WRONG.iter().map(|(_, text)| (*text).to_owned()))
            .collect();
    for case in &mut cases {
        let text = mutated(&mut random, &seeds);
        let began = Instant::now();
        let loaded = of(&text);
        let problems: Vec<String> = loaded.problems().iter().map(ToString::to_string).collect();
        assert!(problems.iter().all(|problem| !problem.contains('\n')), "{problems:?}");
        if case % 16 == 0 {
            loaded.keys();
            assert_eq!(told(&text).lines().count(), problems.len(), "{text}");
        }
        assert!(began.elapsed() < LIMIT, "case {case} hangs:\n{text}");
    }
    tried("mutations of the settings", format!("{} files", cases.count()));
}

fn mutated(random: &mut Random, seeds: &[String]) -> String {
    const BITS: &[&str] = &[
        ": ",
        "\n",
        "\n  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "!x ",
        "|",
        ">-",
        "\"",
        "'",
        "#",
        "\t",
        "%YAML 1.2\n",
        "---\n",
        "...\n",
        "? ",
        ", ",
        "~",
        "\0",
        "\u{feff}",
        "é",
        "\u{85}",
        "\u{2028}",
        "0x",
        "1e999",
        "-.inf",
        ".nan",
        "99999999999999999999999999999999999999999",
        "${",
        "@",
        "`",
        "\\",
        "\r",
        "yes",
        "\u{1b}[31m",
    ];
    let mut bytes = seeds[random.below(seeds.len())].clone().into_bytes();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let until = (at + random.below(40)).min(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => _ = bytes.drain(at..until),
            2 => {
                let part = bytes[at..until].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            3 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            4 => {
                let other = seeds[random.below(seeds.len())].as_bytes();
                let from = random.below(other.len() + 1);
                let to = (from + random.below(80)).min(other.len());
                bytes.splice(at..until, other[from..to].iter().copied());
            }
            _ => {
                let bit = BITS[random.below(BITS.len())].repeat(1 + random.below(3));
                bytes.splice(at..at, bit.into_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
