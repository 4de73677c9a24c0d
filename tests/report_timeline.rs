//! Timelines: as SVG, as PNG, and as a page in a browser.

use runlore::analyze::{Thresholds, Timelines};
use runlore::events::TelemetryEvent;
use runlore::report::{Bar, Level, Line, Mark, Panel, Picture, Point, State, Unit, events_page};

use crate::browser::{self, View};

const SECOND: u64 = 1_000_000_000;
/// 2025-08-19T10:40:00Z
const START: u64 = 1_755_600_000 * SECOND;
/// What a name from a record may be.
const HOSTILE: &str =
    "</script><script>problems.push('out')</script><img src=x onerror=problems.push('out')>\"'&";

/// A sample a second; the value tells which one it is.
fn counted(samples: u64) -> Picture {
    let points =
        (0..samples).map(|at| Point { at_ns: at * SECOND, value: (at * 1_000_000) as f64 });
    Picture {
        title: format!("Memory {HOSTILE}"),
        subtitle: HOSTILE.to_owned(),
        start_ns: START,
        length_ns: (samples - 1) * SECOND,
        panels: vec![Panel {
            title: HOSTILE.to_owned(),
            unit: Unit::Bytes,
            lines: vec![Line {
                name: HOSTILE.to_owned(),
                points: points.collect(),
                ..Line::default()
            }],
            limit: Some((samples * 1_100_000) as f64),
        }],
        bars: (0..7)
            .map(|at| Bar {
                name: format!("task {at} {HOSTILE}"),
                start_ns: at * samples / 8 * SECOND,
                length_ns: samples / 6 * SECOND,
                row: (at % 3) as u32,
                state: [State::Finished, State::Failed, State::Running][at as usize % 3],
            })
            .collect(),
        density: vec![1, 2, 3, 0],
        marks: vec![Mark {
            at_ns: samples / 3 * SECOND,
            end_ns: samples / 2 * SECOND,
            level: Level::Warning,
            text: HOSTILE.to_owned(),
            panel: None,
        }],
        notes: vec![HOSTILE.to_owned()],
    }
}

#[test]
fn svg_is_what_it_was() {
    let mut picture = counted(60);
    picture.notes = vec!["a note".to_owned()];
    insta::assert_snapshot!(picture.to_svg().replace("><", ">\n<"));
}

#[test]
fn a_page_without_scripts_shows_the_picture() {
    let html = counted(60).to_html();
    let (_, shown) =
        html.split_once(r#"<div class="static">"#).expect("it is there, and not hidden");
    let (shown, _) = shown.split_once("</svg>").expect("it is drawn");
    assert!(shown.trim_start().starts_with("<svg") && shown.contains("<path"), "{shown}");
    assert!(!shown.contains("<script"));
}

#[test]
fn png_has_the_size_that_was_asked_for() {
    let png = counted(60).to_png(2.0).unwrap();
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(side(16), 2400);
    let too_large = counted(60).to_png(20.0).unwrap_err().to_string();
    assert!(too_large.contains("too large; write an SVG, or HTML"), "{too_large}");
}

#[test]
fn a_hundred_thousand_samples_are_less_than_a_megabyte() {
    let mut picture = counted(100_000);
    let line = picture.panels[0].lines[0].clone();
    picture.panels[0].lines.extend([line.clone(), line]);
    let html = picture.to_html();
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

#[test]
fn a_picture_of_nothing_is_drawn() {
    let picture = Picture::default();
    assert!(picture.to_svg().ends_with("</svg>"));
    assert!(picture.to_html().ends_with("</html>\n"));
    picture.to_png(1.0).unwrap();
}

#[test]
fn a_page_can_be_looked_into() {
    if !browser::is_there() {
        return;
    }
    let samples = 30_000;
    let html = counted(samples).to_html();
    let found = browser::look(
        &html,
        "timeline",
        View::LIGHT,
        "const svg = document.querySelector('.live svg'), box = document.querySelector('.live');
        const shown = () => svg.dataset.to - svg.dataset.from;
        const at = (share, more) => {
          const place = svg.getBoundingClientRect();
          return { clientX: place.left + place.width * share, clientY: place.top + 120, bubbles: true, cancelable: true, pointerId: 1, ...more };
        };
        const button = (name) => [...document.querySelectorAll('button')].find((one) => one.textContent === name).click();
        const key = (name, more) => box.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true, ...more }));
        const found = { bars: svg.querySelectorAll('rect.bar').length, all: shown(), told: [] };
        for (const share of [0.3, 0.5, 0.77]) {
          svg.dispatchEvent(new PointerEvent('pointermove', at(share)));
          found.told.push(document.querySelector('.tip').textContent);
        }
        button('+'); button('+');
        found.zoomed = shown();
        found.path = svg.querySelector('path.curve').getAttribute('d').split('L').length;
        button('▶');
        found.later = Number(svg.dataset.from);
        svg.dispatchEvent(new WheelEvent('wheel', at(0.5, { ctrlKey: true, deltaY: -1 })));
        found.wheel = shown();
        key('Home');
        found.home = shown();
        svg.dispatchEvent(new PointerEvent('pointerdown', at(0.4)));
        svg.dispatchEvent(new PointerEvent('pointermove', at(0.6)));
        svg.dispatchEvent(new PointerEvent('pointerup', at(0.6)));
        found.dragged = shown();
        button('All');
        svg.dispatchEvent(new PointerEvent('pointerleave', {}));
        const spoken = () => document.querySelector('.live [aria-live]').textContent;
        key('n');
        found.spoken = spoken();
        key('Escape'); key('ArrowRight'); key('ArrowRight');
        found.tasks = spoken();
        const tip = document.querySelector('.tip');
        key('Escape');
        svg.dispatchEvent(new PointerEvent('pointerdown', at(0.3, { pointerType: 'touch' })));
        svg.dispatchEvent(new PointerEvent('pointerup', at(0.3, { pointerType: 'touch' })));
        svg.dispatchEvent(new PointerEvent('pointerleave', at(0.3, { pointerType: 'touch' })));
        found.touched = tip.hidden ? '' : tip.textContent;
        found.listed = document.querySelectorAll('details.tasks tbody tr').length;
        found.images = document.querySelectorAll('img').length;
        found.staticHidden = document.querySelector('.static').hidden;
        return found;",
    );
    let number = |name: &str| found[name].as_f64().unwrap();
    let length = ((samples - 1) * SECOND) as f64;
    assert_eq!(found["bars"], 7);
    assert_eq!((number("all"), number("home")), (length, length));
    assert!((number("zoomed") / length - 0.25).abs() < 1e-6, "{found}");
    assert!(number("path") > 500.0, "{found}");
    assert!(number("later") > length * 0.374, "{found}");
    assert!((number("wheel") / number("zoomed") - 0.8).abs() < 1e-6, "{found}");
    assert!((0.15..0.25).contains(&(number("dragged") / length)), "{found}");
    assert_eq!((found["images"].as_u64(), found["staticHidden"].as_bool()), (Some(0), Some(true)));
    assert!(found["spoken"].as_str().unwrap().contains("1, warning"), "{found}");
    assert!(found["tasks"].as_str().unwrap().contains("task 0"), "{found}");
    assert!(found["touched"].as_str().unwrap().contains("2025-08-19"), "a tap tells: {found}");
    assert_eq!(found["listed"], 7, "{found}");
    for told in found["told"].as_array().unwrap() {
        let told = told.as_str().unwrap();
        let (at, value) = (seconds_in(told), value_in(told));
        // A point is one of the samples, and the nearest of those drawn.
        assert_eq!(value % 1_000_000, 0, "{told}");
        assert!((value / 1_000_000).abs_diff(at) <= 2, "{told}");
    }
}

/// The time in `… · 2025-08-19 10:40:01.250 UTC…`, in seconds since the start.
fn seconds_in(told: &str) -> u64 {
    let clock = &told.split("2025-08-19 ").nth(1).unwrap()[..8];
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    (parts[0] * 3600 + parts[1] * 60 + parts[2]) - (10 * 3600 + 40 * 60)
}

/// The exact value in `… (1,000,000)`.
fn value_in(told: &str) -> u64 {
    let exact = told.rsplit_once(" (").unwrap().1.split(')').next().unwrap();
    exact.replace(',', "").parse().unwrap()
}

#[test]
fn a_page_can_be_read_in_light_and_dark_and_on_a_phone() {
    if !browser::is_there() {
        return;
    }
    let mut picture = counted(5_000);
    picture.title = "Memory over time".to_owned();
    picture.panels[0].title = "rank 0, device 0 of node1".to_owned();
    picture.panels[0].lines[0].name = "allocated".to_owned();
    browser::can_be_read(&picture.to_html(), "timeline-colours", 1000);
    browser::can_be_read(&ranks().to_html(), "timeline-ranks", 1000);
    let timelines = job(16, 60);
    let many = Picture::of_events(&timelines, &timelines.analyze(&Thresholds::default()));
    browser::can_be_read(&many.to_html(), "timeline-job", 1000);
}

/// Two ranks, of which the second grows first.
fn ranks() -> Picture {
    let event = |rank: u64, at: u64| TelemetryEvent {
        session_id: format!("rank-{rank}").into(),
        job_id: Some("job".into()),
        rank,
        world_size: 2,
        device_id: 0,
        timestamp_ns: START + at * 100_000_000,
        allocator_allocated_bytes: Some(1 << 30),
        allocator_reserved_bytes: Some(2 << 30),
        device_used_bytes: Some(if at >= 12 - 5 * rank { 5 << 30 } else { 2 << 30 }),
        device_total_bytes: Some(8 << 30),
        ..TelemetryEvent::default()
    };
    let events = (0..2).flat_map(|rank| (0..20).map(move |at| event(rank, at)));
    let timelines: Timelines = events.collect();
    Picture::of_events(&timelines, &timelines.analyze(&Thresholds::default()))
}

#[test]
fn the_rank_that_may_have_begun_it_is_marked() {
    let picture = ranks();
    let titles: Vec<&str> = picture.panels.iter().map(|panel| &*panel.title).collect();
    assert_eq!(
        titles,
        [
            "rank 0, device 0 of unknown, 8 GiB in all",
            "rank 1, device 0 of unknown, 8 GiB in all: it may have begun here",
        ]
    );
    let first_cause =
        picture.marks.iter().find(|mark| mark.text.starts_with("first_cause")).unwrap();
    assert_eq!(first_cause.at_ns / 100_000_000, 7);
    assert_eq!(picture.panels[0].limit, Some((8_u64 << 30) as f64));
}

/// A job of which one rank grows before all others do; each sample is a little different.
fn job(ranks: u64, samples: u64) -> Timelines {
    let event = |rank: u64, at: u64| {
        let begin = if rank == ranks - 3 { samples / 3 } else { samples / 2 };
        let tremble = (at * 7919 + rank * 104_729) % 1013 * (100 << 10);
        TelemetryEvent {
            // Sessions are in another order than ranks.
            session_id: format!("session-{}", (rank * 7) % 1000).into(),
            job_id: Some("job".into()),
            host: format!("gpu-node-{:04}.cluster.example.org", rank / 8).into(),
            rank,
            world_size: ranks,
            device_id: (rank % 8) as i64,
            timestamp_ns: START + at * 100_000_000 + rank * 1_234,
            allocator_allocated_bytes: Some(1 << 30),
            allocator_reserved_bytes: Some(2 << 30),
            device_used_bytes: Some((if at >= begin { 6 << 30 } else { 2 << 30 }) + tremble),
            device_total_bytes: Some(8 << 30),
            ..TelemetryEvent::default()
        }
    };
    (0..ranks).flat_map(|rank| (0..samples).map(move |at| event(rank, at))).collect()
}

#[test]
fn of_many_ranks_the_one_that_may_have_begun_it_comes_first() {
    let timelines = job(16, 60);
    let ranks: Vec<u64> =
        timelines.series().iter().map(|series| series.place.rank.unwrap()).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    let picture = Picture::of_events(&timelines, &timelines.analyze(&Thresholds::default()));
    assert!(picture.marks[0].text.starts_with("first_cause (rank 13"), "{:?}", picture.marks);
    assert!(picture.marks.len() < 12, "{:?}", picture.marks);
    let together: Vec<&str> = picture.marks.iter().map(|mark| &*mark.text).collect();
    let together =
        together.iter().find(|text| text.starts_with("step (15 ranks: 0 to 12, 14, 15)"));
    assert!(together.is_some(), "{:?}", picture.marks);
    assert!(picture.panels[0].title.contains("rank 13 may have begun it"));
    assert!(picture.panels[0].lines[0].is_suspect, "suspects have the first colour and words");
    let svg = picture.to_svg();
    assert!(svg.contains("rank 13") && svg.contains("15 others in grey"));
}

#[test]
fn a_page_of_many_ranks_stays_below_a_megabyte_and_keeps_its_jumps() {
    let timelines = job(256, 391);
    let report = timelines.analyze(&Thresholds::default());
    let picture = Picture::of_events(&timelines, &report);
    for html in [picture.to_html(), events_page(&report, &timelines)] {
        assert!(html.len() < 1_000_000, "{} bytes", html.len());
        assert!(html.contains("first_cause") || html.contains("first cause"));
        assert!(html.contains("rank 253"));
    }
}

#[test]
fn marks_are_in_their_panels_and_flags_apart() {
    if !browser::is_there() {
        return;
    }
    let picture = ranks();
    let found = browser::look(
        &picture.to_html(),
        "timeline-marks",
        View::LIGHT,
        "const svg = document.querySelector('.live svg'), box = (one) => one.getBoundingClientRect();
        const flags = [...svg.querySelectorAll('rect.flag')].map(box), texts = [...svg.querySelectorAll('text:not(.on-flag)')].map(box);
        const crosses = (one, other) => one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1;
        const lines = [...svg.querySelectorAll('.mark')].map(box).map((one) => ({ left: one.left, right: one.right + 2, top: one.top, bottom: one.bottom }));
        const pairs = flags.flatMap((one, at) => flags.slice(at + 1).filter((other) => crosses(one, other)));
        svg.dispatchEvent(new PointerEvent('pointermove', { clientX: box(svg).left + 500, clientY: box(svg).top + 60, bubbles: true, pointerId: 1 }));
        const live = document.querySelector('.live'), spoken = [];
        live.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
        for (let at = 0; at < 20; at += 1) {
          live.dispatchEvent(new KeyboardEvent('keydown', { key: 'n', bubbles: true }));
          spoken.push(document.querySelector('[aria-live]').textContent.match(/(\\d+), (info|warning|critical)/)[1]);
        }
        return { flags: flags.length, covered: pairs.length, struck: lines.filter((line) => texts.some((text) => crosses(line, text))).length,
          told: [...document.querySelectorAll('.tip p')].map((one) => one.textContent), spoken: new Set(spoken).size };",
    );
    assert_eq!(found["flags"], picture.marks.len(), "{found}");
    assert_eq!((&found["covered"], &found["struck"]), (&0.into(), &0.into()), "{found}");
    assert_eq!(found["spoken"], picture.marks.len(), "each mark is told: {found}");
    let told = found["told"].as_array().unwrap();
    let heads = told.iter().filter(|line| line.as_str().unwrap().starts_with("rank "));
    assert_eq!(heads.count(), 2, "values are told by panel: {found}");
}

/// A machine and a process have the same number in all counters; only a machine knows its total.
#[test]
fn a_machine_and_a_process_are_drawn_once() {
    let title = |total: Option<u64>| {
        let event = |second: u64| TelemetryEvent {
            timestamp_ns: START + second * 1_000_000_000,
            host: "node".into(),
            allocator_allocated_bytes: Some(second << 28),
            allocator_reserved_bytes: Some(second << 28),
            device_used_bytes: Some(second << 28),
            device_total_bytes: total,
            ..TelemetryEvent::default()
        };
        let timelines: Timelines = (0..10).map(event).collect();
        let picture = Picture::of_events(&timelines, &timelines.analyze(&Thresholds::default()));
        assert_eq!(picture.panels.len(), 1);
        assert_eq!(picture.panels[0].lines.len(), 1);
        picture.panels[0].title.clone()
    };
    assert_eq!(title(Some(8 << 30)), "Memory of the machine node, 8 GiB in all");
    assert_eq!(title(None), "Memory of the program");
}

#[test]
fn a_timeline_of_a_tracker_is_drawn() {
    use runlore::tracker::Timeline;
    use std::time::Duration;

    let event = |second: u64| TelemetryEvent {
        timestamp_ns: START + second * 1_000_000_000,
        allocator_allocated_bytes: Some(second << 28),
        allocator_reserved_bytes: (second > 2).then_some(second << 29),
        device_used_bytes: Some(6 << 30),
        device_total_bytes: Some(8 << 30),
        ..TelemetryEvent::default()
    };
    let events: Vec<TelemetryEvent> = (0..10).map(event).collect();
    let picture = Picture::of_timeline(&Timeline::of(&events, Duration::from_secs(1)));
    let drawn: Vec<(&str, usize)> = picture
        .panels
        .iter()
        .flat_map(|panel| &panel.lines)
        .map(|line| (&*line.name, line.points.len()))
        .collect();
    assert_eq!(drawn, [("in use, by anybody", 10), ("reserved", 7), ("allocated", 10)]);
    assert_eq!(picture.panels[0].limit, Some((8_u64 << 30) as f64));
    assert_eq!(picture.length_ns, 9_000_000_000);
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [("a/t.png", "\u{89}PNG"), ("a/t.svg", "<svg"), ("a/t.html", "<!doctype")]
    {
        let path = folder.path().join(name);
        picture.save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let begins: String =
            bytes.iter().take(start.chars().count()).map(|it| *it as char).collect();
        assert_eq!(begins.to_lowercase(), start.to_lowercase(), "{name}");
    }
    let refused = picture.save(folder.path().join("t.gif")).unwrap_err().to_string();
    assert!(refused.ends_with("t.gif: end its name with .png, .svg or .html"), "{refused}");
    assert!(Picture::of_timeline(&Timeline::default()).to_svg().starts_with("<svg"));
}

#[test]
fn snapshots_and_scopes_of_a_profiler_are_drawn() {
    use runlore::profile::Profiler;

    let profiler = Profiler::new();
    assert!(Picture::of_profiler(&profiler).to_svg().starts_with("<svg"));
    profiler.snapshot("start");
    let mut outer = profiler.scope("outer");
    profiler.scope("inner").run(|| std::hint::black_box(vec![1_u8; 1 << 20]));
    outer.snapshot("half way");
    outer.finish();
    let picture = Picture::of_profiler(&profiler);
    let names: Vec<&str> =
        picture.bars.iter().filter_map(|bar| bar.name.split(' ').next()).collect();
    assert_eq!(names, ["outer", "inner"]);
    assert_eq!((picture.bars[0].row, picture.bars[1].row), (0, 1), "one is inside the other");
    let inside = |bar: &runlore::report::Bar| bar.start_ns + bar.length_ns <= picture.length_ns;
    assert!(picture.bars.iter().all(inside), "{picture:?}");
    assert_eq!(picture.marks.len(), 2);
    assert!(picture.marks[1].text.starts_with("half way"), "{:?}", picture.marks);
    if cfg!(target_os = "linux") {
        // Two snapshots, and both edges of both scopes.
        let resident = &picture.panels[0].lines[0];
        assert_eq!((&*resident.name, resident.points.len()), ("resident", 6));
        assert!(resident.points.is_sorted_by_key(|point| point.at_ns));
    }
    assert!(picture.to_svg().contains("half way"));
}
