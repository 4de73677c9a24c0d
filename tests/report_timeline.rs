//! Timelines: as SVG, as PNG, and as a page in a browser.

use runlore::analyze::{Thresholds, Timelines};
use runlore::events::TelemetryEvent;
use runlore::report::{Bar, Level, Line, Mark, Panel, Picture, Point, State, Unit};

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
                is_suspect: false,
                points: points.collect(),
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
        key('ArrowRight'); key('p');
        found.spoken = document.querySelector('.live [aria-live]').textContent;
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
    assert!(found["spoken"].as_str().unwrap().contains("warning"), "{found}");
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
