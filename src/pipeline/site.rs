//! Call sites: what is known of an annotated function at compile time, and of a loop when it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
#[cfg(unix)]
use std::sync::RwLockWriteGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::event::ItemKind;
use super::json::KnownName;
use super::overhead::CallSite;
use super::session;
use runlore_core::once::Once;
use runlore_telemetry::TelemetryChoice;
use runlore_telemetry::machine::AnnotatedCrate;

/// What the macro knows of an annotated function.
#[derive(Debug)]
#[allow(missing_docs, reason = "written by the macro, read by nobody else")]
pub struct SiteSpec {
    pub name: &'static str,
    /// The path of a function inside the annotated one, as the compiler spells it.
    pub function: fn() -> &'static str,
    /// Empty where only the place in the code is known.
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

/// An annotated function, and the number it goes by in events.
#[derive(Debug)]
pub struct Site {
    pub(crate) spec: SiteSpec,
    /// 0 until the site's first task.
    number: AtomicU32,
    /// How much its tasks capture.
    pub(crate) captures: CallSite,
    /// Its path, where that says more than its module and its name.
    function: Once<Option<String>>,
    /// How records say its name, of what kind it is, and where.
    pub(super) name: Once<String>,
    pub(super) classes: Once<String>,
    pub(super) code: Once<String>,
    /// The names of what it gets, gives and tells.
    names: Once<[Vec<KnownName>; 3]>,
}

/// A place in the code where tasks come from again and again that are not of an annotated function: the iterations of a loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodePlace<'a> {
    pub(crate) name: &'a str,
    pub(crate) subtype: &'static str,
    pub(crate) code: &'a Location<'a>,
    /// The same for all of a subtype, as is the next.
    pub(crate) used: &'static [&'static str],
    pub(crate) metadata: &'static [&'static str],
}

/// Where a task comes from, as its beginning tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The number of its site; 0 where it has none.
    pub(crate) site: u32,
    /// Its record does not say where in the code that is.
    pub(crate) is_brief: bool,
}

impl Origin {
    #[inline]
    pub(crate) fn of(site: Option<&'static Site>) -> Self {
        Self { site: site.map_or(0, Site::number), is_brief: false }
    }
}

/// How many places have a site, and the longest name of one: neither is ever freed.
const MOST_PLACES: usize = 1024;
const LONGEST_NAME: usize = 256;

#[derive(Debug)]
pub(super) struct Sites {
    /// Those that have had a task, by number from 1 on.
    registered: Vec<&'static Site>,
    /// Those of places, by line and column.
    places: BTreeMap<(u32, u32), Vec<&'static Site>>,
}

static SITES: RwLock<Sites> =
    RwLock::new(Sites { registered: Vec::new(), places: BTreeMap::new() });

impl Sites {
    fn of_place(&self, place: &CodePlace<'_>) -> Option<&'static Site> {
        let there = self.places.get(&place.key())?;
        there.iter().copied().find(|site| site.spec.is_of(place))
    }
}

impl CodePlace<'_> {
    /// Line and column.
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
    /// The site of an annotated function.
    pub const fn new(spec: SiteSpec) -> Self {
        Self {
            spec,
            number: AtomicU32::new(0),
            captures: CallSite::new(),
            function: Once::new(),
            name: Once::new(),
            classes: Once::new(),
            code: Once::new(),
            names: Once::new(),
        }
    }

    /// The name of what its tasks tell under a number, as an item of this kind.
    #[inline]
    pub(super) fn name_of(&'static self, kind: ItemKind, index: u16) -> Option<&'static KnownName> {
        let [used, generated, metadata] = self.names.get_or_init(|| {
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

    /// The site of a place in the code; none where there are too many.
    pub(crate) fn of_place(place: &CodePlace<'_>) -> Option<&'static Self> {
        let known = SITES.read().unwrap_or_else(PoisonError::into_inner).of_place(place);
        if known.is_some() || place.name.len() > LONGEST_NAME {
            return known;
        }
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have come first.
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

    /// The path of the function, where its module and its name do not say it all: of a method, or of one that goes by another
    /// name.
    pub(super) fn function(&'static self) -> Option<&'static str> {
        let path = self.function.get_or_init(|| {
            let inside = (self.spec.function)();
            // What an async body is in has no name of its own.
            let path = inside.strip_suffix("::__function")?.replace("::{{closure}}", "");
            (path != format!("{}::{}", self.spec.module, self.spec.name)).then_some(path)
        });
        path.as_deref()
    }

    /// The site's number; never 0.
    #[inline]
    pub(crate) fn number(&'static self) -> u32 {
        match self.number.load(Ordering::Relaxed) {
            0 => self.register(),
            number => number,
        }
    }

    #[cold]
    fn register(&'static self) -> u32 {
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have come first.
        let number = self.number.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        sites.registered.push(self);
        let number = sites.registered.len() as u32;
        session::note_site(number, self);
        self.number.store(number, Ordering::Relaxed);
        number
    }

    /// The site of a number that an event holds; 0 is none.
    pub(crate) fn of(number: u32) -> Option<&'static Self> {
        let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
        sites.registered.get((number as usize).checked_sub(1)?).copied()
    }
}

/// The table, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = RwLockWriteGuard<'static, Sites>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    SITES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the sites that have had a task, by number from 1 on. None is added meanwhile.
pub(super) fn with_registered<R>(see: impl FnOnce(&[&'static Site]) -> R) -> R {
    see(&SITES.read().unwrap_or_else(PoisonError::into_inner).registered)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// What another process needs of a site to write its records.
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

    /// The site again. It is never freed: a process has few places of its own and recovers few others, and each has few sites.
    pub(super) fn into_site(mut self) -> &'static Site {
        let function = self.function.take();
        let site: &'static Site = Box::leak(Box::new(Site::new(self.into_spec())));
        site.function.get_or_init(|| function);
        site
    }

    /// What it says, for as long as the process lives.
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

/// A site as the catalogue of annotated functions holds it.
#[derive(Debug)]
pub struct SiteEntry(pub(crate) &'static Site);

impl SiteEntry {
    /// An entry for the catalogue.
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
    /// The names of what it gives.
    pub outputs: &'static [&'static str],
    /// Its tags.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tags: &'static [&'static str],
}

/// The crates of the program that have annotated functions.
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

/// Every annotated function of the program, by name: the plan, beside what really ran.
///
/// A crate that is linked but never used in the code is left out by the linker: name it with
/// `extern crate the_crate as _;`.
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
