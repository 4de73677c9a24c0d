//! Renders a diagnosis of a machine as one HTML file.

use super::analysis::found;
use super::findings;
use super::html::{facts, page};
use super::svg::Markup;
use super::timeline;
use runlore_core::text::{human_bytes, rounded, thousands};
use runlore_events::analyze::{Diagnosed, EventReport, HostMemory};

/// Renders the diagnosis as one HTML file, for inclusion in its bundle. It loads nothing from the
/// network, and all of its content is readable without scripts.
///
/// ```
/// use std::time::Duration;
/// use runlore::analyze::{Diagnose, Thresholds};
/// use runlore::report::diagnosis_page;
///
/// # let folder = std::env::temp_dir().join(format!("runlore-doc-diagnosed-{}", std::process::id()));
/// let look = Diagnose { duration: Duration::from_millis(20), interval: Duration::from_millis(10) };
/// let mut found = look.run(&Thresholds::default());
/// found.attach("report.html", diagnosis_page(&found));
/// let bundle = found.write(&folder, ["runlore", "events", "diagnose"])?;
/// assert!(bundle.join("report.html").exists());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn diagnosis_page(diagnosed: &Diagnosed) -> String {
    // The diagnosis has its own findings. The curves only illustrate them.
    let mut report = EventReport::default();
    report.findings = diagnosed.findings.clone();
    let (mut picture, numbers) = timeline::drawn(&diagnosed.timelines(), &report);
    picture.title = "Memory while it was looked at".to_owned();
    let mut to = Markup::default();
    to.open("main", &[]);
    let name = diagnosed.host();
    to.element("h1", &[], format!("A look at {name}"));
    to.quiet(&picture.subtitle);
    facts(&mut to, &facts_of(diagnosed));
    found(&mut to, &diagnosed.findings, &picture, &numbers);
    surroundings(diagnosed, &mut to);
    to.close("main");
    page(&format!("{name} · Runlore"), &to.finish())
}

fn facts_of(diagnosed: &Diagnosed) -> Vec<(&'static str, String)> {
    let summary = &diagnosed.summary;
    let risks = findings::counts(&diagnosed.findings).unwrap_or_else(|| "none".to_owned());
    let used = rounded(summary.peak_ratio() * 100.0);
    let (peak, total) = (human_bytes(summary.peak_bytes), human_bytes(summary.total_bytes));
    let peak = format!("{peak} of {total} ({used} %)");
    let mut all = vec![("risks", risks), ("in use at the peak", peak)];
    if let Some(host) = &summary.host {
        all.extend(of_host(host));
    }
    all.push((
        "ran out of memory before",
        match summary.num_ooms {
            0 => "never, as far as is known".to_owned(),
            1 => "once".to_owned(),
            times => format!("{} times", thousands(times)),
        },
    ));
    all
}

fn surroundings(diagnosed: &Diagnosed, to: &mut Markup) {
    to.element("h2", &[("id", &"machine")], "The machine");
    for (name, part) in diagnosed.environment().as_object().into_iter().flatten() {
        to.raw("<details>");
        to.element(
            "summary",
            &[],
            match &**name {
                "system" => "In a few words",
                "gpu" => "Graphics processors",
                "fragmentation" => "Fragmentation",
                "machine" => "All that is known of it",
                other => other,
            },
        );
        let text = serde_json::to_string_pretty(part).unwrap_or_default();
        to.element("pre", &[], text);
        to.raw("</details>");
    }
}

fn of_host(host: &HostMemory) -> Vec<(&'static str, String)> {
    let part = |part: u64, of: u64| format!("{} of {}", human_bytes(part), human_bytes(of));
    let mut all = vec![("could be had at the least", part(host.available_bytes, host.total_bytes))];
    all.push((
        "swap in use",
        match host.swap_total_bytes {
            0 => "there is none".to_owned(),
            total => part(host.swap_used_bytes, total),
        },
    ));
    if let (Some(used), Some(limit)) = (host.container_used_bytes, host.container_limit_bytes) {
        all.push(("the container's limit", part(used, limit)));
    }
    if let Some(waited) = host.pressure_percent {
        all.push(("waiting for memory", format!("{} % of the time", rounded(waited))));
    }
    all
}
