//! Call sites: compile-time facts about annotated functions, and facts about loops known when they
//! begin.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::event::ItemKind;
use super::json::KnownName;
use super::overhead::CallSite;
use super::session;
use runlore_core::fork::{PerProcess, generation, get_or_make};
use runlore_telemetry::TelemetryChoice;
use runlore_telemetry::machine::AnnotatedCrate;

/// Compile-time facts about an annotated function, from the macro.
#[derive(Debug)]
#[allow(missing_docs, reason = "written by the macro, read by nobody else")]
pub struct SiteSpec {
    pub name: &'static str,
    /// Returns the path of a function inside the annotated one, as the compiler formats it.
    pub function: fn() -> &'static str,
    /// Empty if only the source location is known.
    pub crate_name: &'static str,
    pub crate_version: &'static str,
    pub commit: Option<&'static str>,
    pub module: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
    pub parameters: &'static [&'static str],
    pub used: &'static [&'static str],
    pub generated: &'static [&'static str],
    pub metadata: &'static [&'static str],
    pub tags: &'static [&'static str],
    pub subtype: Option<&'static str>,
    pub telemetry: TelemetryChoice,
    pub spread: bool,
    pub summarise_full: bool,
    pub is_async: bool,
}

/// An annotated function, and its number in events.
#[derive(Debug)]
pub struct Site {
    pub(crate) spec: SiteSpec,
    /// The number in the lower half, and in the upper half the generation of the process that it
    /// is valid in. 0 until the site's first task.
    number: AtomicU64,
    /// How much its tasks capture.
    pub(crate) captures: CallSite,
    /// Its path, if that contains more than its module and its name.
    function: OnceLock<Option<String>>,
    /// Cached JSON of its name, its subtype and tags, and its location.
    pub(super) name: OnceLock<String>,
    pub(super) classes: OnceLock<String>,
    pub(super) code: OnceLock<String>,
    /// The names of its inputs, outputs and metadata.
    names: OnceLock<[Vec<KnownName>; 3]>,
}

/// A source location that creates tasks repeatedly without being an annotated function: the
/// iterations of a loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodePlace<'a> {
    pub(crate) name: &'a str,
    pub(crate) subtype: &'static str,
    pub(crate) code: &'a Location<'a>,
    /// The same for all locations of a subtype, like `metadata`.
    pub(crate) used: &'static [&'static str],
    pub(crate) metadata: &'static [&'static str],
}

/// The origin of a task, as recorded in its START.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The number of its site, 0 if it has none.
    pub(crate) site: u32,
    /// The record omits the source location.
    pub(crate) is_brief: bool,
}

impl Origin {
    #[inline]
    pub(crate) fn of(site: Option<&'static Site>) -> Self {
        Self { site: site.map_or(0, Site::number), is_brief: false }
    }
}

/// The maximum number of loop locations with a site, and the maximum length of their names. Neither
/// is ever freed.
const MOST_PLACES: usize = 1024;
const LONGEST_NAME: usize = 256;

#[derive(Debug, Default)]
struct Sites {
    /// The sites that have had a task. The number of the first one is 1.
    registered: Vec<&'static Site>,
    /// The sites of loop locations, by line and column.
    places: BTreeMap<(u32, u32), Vec<&'static Site>>,
}

static SITES: PerProcess<RwLock<Sites>> = PerProcess::new();

impl Sites {
    fn of_place(&self, place: &CodePlace<'_>) -> Option<&'static Site> {
        let there = self.places.get(&place.key())?;
        there.iter().copied().find(|site| site.spec.is_of(place))
    }
}

impl CodePlace<'_> {
    /// Returns the line and column.
    fn key(&self) -> (u32, u32) {
        (self.code.line(), self.code.column())
    }
}

impl SiteSpec {
    fn is_of(&self, place: &CodePlace<'_>) -> bool {
        (self.name, self.subtype, self.file) == (place.name, Some(place.subtype), place.code.file())
    }
}

impl Site {
    /// Creates the site of an annotated function.
    pub const fn new(spec: SiteSpec) -> Self {
        Self {
            spec,
            number: AtomicU64::new(0),
            captures: CallSite::new(),
            function: OnceLock::new(),
            name: OnceLock::new(),
            classes: OnceLock::new(),
            code: OnceLock::new(),
            names: OnceLock::new(),
        }
    }

    /// Returns the name of an item of this kind, given its index.
    #[inline]
    pub(super) fn name_of(&'static self, kind: ItemKind, index: u16) -> Option<&'static KnownName> {
        let [used, generated, metadata] = get_or_make(&self.names, || {
            [self.spec.used, self.spec.generated, self.spec.metadata]
                .map(|names| names.iter().map(|name| KnownName::new(name)).collect())
        });
        let names = match kind {
            ItemKind::Used => used,
            ItemKind::Generated => generated,
            ItemKind::Metadata => metadata,
            _ => return None,
        };
        names.get(usize::from(index))
    }

    /// Returns the site of a source location. `None` if there are too many.
    pub(crate) fn of_place(place: &CodePlace<'_>) -> Option<&'static Self> {
        let known = SITES.read().unwrap_or_else(PoisonError::into_inner).of_place(place);
        if known.is_some() || place.name.len() > LONGEST_NAME {
            return known;
        }
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        let known = sites.of_place(place);
        let count = sites.places.values().map(Vec::len).sum::<usize>();
        if known.is_some() || count >= MOST_PLACES {
            return known;
        }
        let (line, column) = place.key();
        let record = SiteRecord {
            name: place.name.to_owned(),
            file: place.code.file().to_owned(),
            line,
            column,
            ..SiteRecord::default()
        };
        let mut spec = record.into_spec();
        (spec.subtype, spec.used, spec.metadata) =
            (Some(place.subtype), place.used, place.metadata);
        let site: &'static Self = Box::leak(Box::new(Self::new(spec)));
        sites.places.entry((line, column)).or_default().push(site);
        Some(site)
    }

    /// Returns the path of the function, if it is not just its module and its name: for a method,
    /// or for a function that is recorded under another name.
    pub(super) fn function(&'static self) -> Option<&'static str> {
        let path = get_or_make(&self.function, || {
            let inside = (self.spec.function)();
            // The block of an async body has no name of its own.
            let path = inside.strip_suffix("::__function")?.replace("::{{closure}}", "");
            (path != format!("{}::{}", self.spec.module, self.spec.name)).then_some(path)
        });
        path.as_deref()
    }

    /// Returns the site's number, which is never 0. Registers the site on first use.
    #[inline]
    pub(crate) fn number(&'static self) -> u32 {
        self.known_number().unwrap_or_else(|| self.register())
    }

    #[inline]
    fn known_number(&self) -> Option<u32> {
        let number = self.number.load(Ordering::Relaxed);
        ((number >> 32) as u32 == generation()).then_some(number as u32)
    }

    #[cold]
    fn register(&'static self) -> u32 {
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(number) = self.known_number() {
            return number;
        }
        sites.registered.push(self);
        let number = sites.registered.len() as u32;
        session::note_site(number, self);
        let valid_in = u64::from(generation()) << 32;
        self.number.store(valid_in | u64::from(number), Ordering::Relaxed);
        number
    }

    /// Returns the site with this number. `None` for 0.
    pub(crate) fn of(number: u32) -> Option<&'static Self> {
        let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
        sites.registered.get((number as usize).checked_sub(1)?).copied()
    }
}

/// Calls `see` with the sites that have had a task, by number from 1. The table is locked
/// meanwhile.
pub(super) fn with_registered<R>(see: impl FnOnce(&[&'static Site]) -> R) -> R {
    see(&SITES.read().unwrap_or_else(PoisonError::into_inner).registered)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// What another process needs to know about a site to write its records.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SiteRecord {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    crate_name: String,
    crate_version: String,
    commit: Option<String>,
    module: String,
    file: String,
    line: u32,
    column: u32,
    used: Vec<String>,
    generated: Vec<String>,
    metadata: Vec<String>,
    tags: Vec<String>,
    subtype: Option<String>,
    spread: bool,
}

impl SiteRecord {
    pub(super) fn of(site: &'static Site) -> Self {
        let spec = &site.spec;
        Self {
            name: spec.name.to_owned(),
            function: site.function().map(str::to_owned),
            crate_name: spec.crate_name.to_owned(),
            crate_version: spec.crate_version.to_owned(),
            commit: spec.commit.map(str::to_owned),
            module: spec.module.to_owned(),
            file: spec.file.to_owned(),
            line: spec.line,
            column: spec.column,
            used: owned(spec.used),
            generated: owned(spec.generated),
            metadata: owned(spec.metadata),
            tags: owned(spec.tags),
            subtype: spec.subtype.map(str::to_owned),
            spread: spec.spread,
        }
    }

    /// Creates the site again. It is never freed: a process recovers few sessions, and each has few
    /// sites.
    pub(super) fn into_site(mut self) -> &'static Site {
        let function = self.function.take();
        let site: &'static Site = Box::leak(Box::new(Site::new(self.into_spec())));
        _ = site.function.set(function);
        site
    }

    /// Converts it to a spec that lives as long as the process.
    fn into_spec(self) -> SiteSpec {
        fn text(text: String) -> &'static str {
            text.leak()
        }
        fn texts(texts: Vec<String>) -> &'static [&'static str] {
            texts.into_iter().map(text).collect::<Vec<_>>().leak()
        }
        SiteSpec {
            name: text(self.name),
            function: || "",
            crate_name: text(self.crate_name),
            crate_version: text(self.crate_version),
            commit: self.commit.map(text),
            module: text(self.module),
            file: text(self.file),
            line: self.line,
            column: self.column,
            parameters: &[],
            used: texts(self.used),
            generated: texts(self.generated),
            metadata: texts(self.metadata),
            tags: texts(self.tags),
            subtype: self.subtype.map(text),
            telemetry: TelemetryChoice::Default,
            spread: self.spread,
            summarise_full: false,
            is_async: false,
        }
    }
}

/// A site in the catalogue of annotated functions.
#[derive(Debug)]
pub struct SiteEntry(pub(crate) &'static Site);

impl SiteEntry {
    /// Creates an entry for the catalogue.
    pub const fn new(site: &'static Site) -> Self {
        Self(site)
    }
}

inventory::collect!(SiteEntry);

/// An annotated function of the program, whether it was ever called or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Annotated {
    /// Its name in records.
    pub name: &'static str,
    /// The module it is in.
    pub module: &'static str,
    /// The file it is in.
    pub file: &'static str,
    /// The line of its name.
    pub line: u32,
    /// Its parameters.
    #[serde(rename = "arguments")]
    pub parameters: &'static [&'static str],
    /// The names of its outputs.
    pub outputs: &'static [&'static str],
    /// Its tags.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tags: &'static [&'static str],
}

/// Returns the crates of the program that have annotated functions.
pub(crate) fn annotated_crates() -> Vec<AnnotatedCrate> {
    let crates: BTreeSet<AnnotatedCrate> = inventory::iter::<SiteEntry>()
        .map(|SiteEntry(Site { spec, .. })| AnnotatedCrate {
            name: spec.crate_name.to_owned(),
            version: spec.crate_version.to_owned(),
            commit: spec.commit.map(str::to_owned),
        })
        .collect();
    crates.into_iter().collect()
}

/// Returns every annotated function of the program, sorted by name: the plan, as opposed to what
/// really ran.
///
/// The linker drops a crate that is linked but never used in the code. Name it with `extern crate
/// the_crate as _;`.
///
/// ```
/// use runlore::telemetry_task;
///
/// #[telemetry_task(tags("io"))]
/// fn read_table(path: &str) -> usize { path.len() }
///
/// let catalogue = runlore::catalogue();
/// let found = catalogue.iter().find(|function| function.name == "read_table").unwrap();
/// assert_eq!(found.parameters, ["path"]);
/// assert_eq!(found.tags, ["io"]);
/// ```
pub fn catalogue() -> Vec<Annotated> {
    let mut entries: Vec<Annotated> = inventory::iter::<SiteEntry>()
        .map(|entry| {
            let spec = &entry.0.spec;
            Annotated {
                name: spec.name,
                module: spec.module,
                file: spec.file,
                line: spec.line,
                parameters: spec.parameters,
                outputs: spec.generated,
                tags: spec.tags,
            }
        })
        .collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}
