//! Pages in a headless Chromium: what a script finds in them, and how they look.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What is wrong with a page is kept from its first moment on.
const WATCH: &str = "<script nonce='test'>window.problems = [];
addEventListener('error', (event) => problems.push('error: ' + event.message));
addEventListener('unhandledrejection', (event) => problems.push('rejected: ' + event.reason));
addEventListener('securitypolicyviolation', (event) => problems.push('refused: ' + event.blockedURI));
for (const kind of ['error', 'warn']) console[kind] = (...told) => problems.push(kind + ': ' + told.join(' '));
</script>";

/// The worst contrast of any text that is seen, and what text that is.
const CONTRAST: &str = "
function numbers(colour) { return (colour.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number); }
function light(colour) {
  const [r, g, b] = numbers(colour).slice(0, 3).map((part) => {
    part /= 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor, parts = numbers(colour);
    if (parts.length === 3 || parts[3] === 1) return colour;
  }
  return 'rgb(255, 255, 255)';
}
// What is painted over something else, as the eye sees both.
function over(colour, paint, share) {
  const [below, above] = [numbers(colour), numbers(paint)];
  return 'rgb(' + [0, 1, 2].map((part) => above[part] * share + below[part] * (1 - share)).join(', ') + ')';
}
// The shapes of a picture that lie across a text: before it in the page beneath it, after it over it.
function across(text) {
  const svg = text.closest('svg'), box = text.getBoundingClientRect();
  const crosses = (one) => one.left < box.right && box.left < one.right && one.top < box.bottom - 2 && box.top + 2 < one.bottom;
  const shapes = svg ? [...svg.querySelectorAll('rect')].filter((one) => !one.matches('.paper, .selection') && crosses(one.getBoundingClientRect())) : [];
  const isAfter = (one) => text.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [shapes.filter((one) => !isAfter(one)), shapes.filter(isAfter)];
}
function contrast() {
  let worst = [99, ''];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join('');
    if (!text || element.closest('script, title, [hidden]') || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element), isShape = element instanceof SVGElement;
    let on = element.matches('.on-bar, .on-flag') ? getComputedStyle(element.previousElementSibling).fill : behind(element);
    let ink = isShape ? style.fill : style.color;
    const [beneath, above] = isShape && !element.matches('.on-bar, .on-flag') ? across(element) : [[], []];
    const paint = (shape) => [getComputedStyle(shape).fill, Number(getComputedStyle(shape).fillOpacity)];
    for (const shape of beneath) on = over(on, ...paint(shape));
    for (const shape of above) [on, ink] = [over(on, ...paint(shape)), over(ink, ...paint(shape))];
    const [one, other] = [light(ink), light(on)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < worst[0]) worst = [ratio, text.slice(0, 60) + ' ' + element.className];
  }
  return worst;
}";

/// Without a screen, and without anything that a browser does by itself.
const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// The narrowest window that there is.
const NARROWEST: u32 = 500;

/// How a page is opened.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) size: (u32, u32),
    pub(crate) is_dark: bool,
}

impl View {
    pub(crate) const LIGHT: Self = Self { name: "light", size: (1280, 1000), is_dark: false };
    pub(crate) const DARK: Self = Self { name: "dark", size: (1280, 1000), is_dark: true };
    pub(crate) const PHONE: Self = Self { name: "phone", size: (390, 1000), is_dark: false };
}

/// Whether there is a browser; where there is none the test says so and passes, except under `CI=true`.
pub(crate) fn is_there() -> bool {
    if crate::python::is_unchanged("chromium") {
        return false;
    }
    if program().is_some() {
        return true;
    }
    let notice = "skipped, for there is no Chromium on PATH";
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{notice}");
    eprintln!("{notice}");
    false
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// Opens a page in light, in dark and on a phone, of this height: every text can be read, and nothing makes it scroll sideways.
pub(crate) fn can_be_read(html: &str, page: &str, height: u32) {
    for view in [View::LIGHT, View::DARK, View::PHONE] {
        let view = View { size: (view.size.0, height), ..view };
        let script = format!(
            "{CONTRAST}
            const closed = [...document.querySelectorAll('details')].filter((one) => !one.open);
            closed.forEach((one) => {{ one.open = true; }});
            const page = document.documentElement;
            const found = {{
              contrast: contrast(), wide: page.scrollWidth - page.clientWidth,
              paper: getComputedStyle(document.body).backgroundColor,
            }};
            closed.forEach((one) => {{ one.open = false; }});
            return found;"
        );
        let found = look(html, page, view, &script);
        let (ratio, text) = (found["contrast"][0].as_f64().unwrap(), &found["contrast"][1]);
        assert!(ratio >= 4.5, "{page}, {}: {ratio} of {text}", view.name);
        assert_eq!(found["wide"], 0, "{page}, {}: it must not scroll sideways", view.name);
        let paper = if view.is_dark { "rgb(17, 22, 31)" } else { "rgb(255, 255, 255)" };
        assert_eq!(found["paper"], Value::from(paper), "{page}, {}", view.name);
    }
}

/// Puts a script and a handler into a page, as a text that nobody escaped would: neither runs, and the page works.
pub(crate) fn runs_no_script_but_its_own(html: &str) {
    let injected = "<body><script>document.documentElement.dataset.ran = 'script'</script>\
        <img src=\"data:,\" onerror=\"document.documentElement.dataset.ran = 'handler'\">";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let page = html.replacen("<body>", injected, 1);
    assert_ne!(page, html, "a page has a body");
    std::fs::write(&file, page).unwrap();
    let seen = Command::new(program().unwrap())
        .args(FLAGS)
        .args(["--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(dom.contains("data-ready=\"true\""), "the page's own script has not run to its end");
    assert!(!dom.contains("data-ran"), "an injected script has run");
}

/// A page whose policy allows the scripts of the tests, and no others, beside its own.
fn with_tests_allowed(html: &str) -> String {
    let allowed = html.replacen("script-src 'sha256-", "script-src 'nonce-test' 'sha256-", 1);
    assert_ne!(allowed, html, "a page allows its own script by its hash");
    allowed
}

/// How long a page takes until it can be used, in milliseconds: of a few openings the fastest, because the machine may be busy
/// with something else.
pub(crate) fn milliseconds_until_ready(html: &str) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    // Laid out, but not painted: without a screen nothing says when that comes, and the page is looked at as soon as it is loaded.
    let told = "<script nonce='test'>document.body.getBoundingClientRect(); document.title = 'ready after ' + performance.now();</script></body>";
    std::fs::write(&file, with_tests_allowed(html).replacen("</body>", told, 1)).unwrap();
    let opened = || {
        let seen = Command::new(program().unwrap())
            .args(FLAGS)
            .args(["--timeout=10000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("file://{}", file.display()))
            .output()
            .unwrap();
        let dom = String::from_utf8_lossy(&seen.stdout).into_owned();
        assert!(dom.contains("data-ready=\"true\""), "the script has not run to its end");
        let number =
            dom.split_once("<title>ready after ").and_then(|(_, rest)| rest.split_once('<'));
        number.and_then(|(number, _)| number.parse::<f64>().ok()).unwrap_or(f64::INFINITY)
    };
    (0..3).map(|_| opened()).fold(f64::INFINITY, f64::min)
}

/// Opens a page, keeps how it looks under the target folder, and returns what the script, the body of a function, returns.
/// Anything that goes wrong in the page, and anything that it asks the network for, fails the test.
pub(crate) fn look(html: &str, page: &str, view: View, script: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let is_narrow = view.size.0 < NARROWEST;
    let looked = format!(
        "<script nonce='test'>addEventListener('load', () => setTimeout(() => {{
          let found = null;
          try {{ found = (() => {{ {script} }})(); }} catch (error) {{ problems.push('test: ' + error.stack); }}
          const result = document.createElement('pre');
          result.id = 'result';
          result.hidden = true;
          const fetched = performance.getEntriesByType('resource').map((entry) => entry.name);
          result.textContent = JSON.stringify({{ found, problems, fetched }});
          document.body.append(result);
          if (parent !== window) parent.postMessage(result.textContent, '*');
        }}, 200));</script></body>"
    );
    let html = with_tests_allowed(html);
    let watched = html.replacen("<head>", &format!("<head>{WATCH}"), 1);
    assert_ne!(watched, html, "a page has a head");
    std::fs::write(&file, watched.replacen("</body>", &looked, 1)).unwrap();
    let mut opened = file;
    if is_narrow {
        // A window cannot be as narrow as a phone, but a page within another can.
        opened = folder.path().join("phone.html");
        let (width, height) = view.size;
        let outer = format!(
            "<!DOCTYPE html><style>body {{ margin: 0 }} iframe {{ border: 0; display: block }}</style>\
             <iframe src=\"page.html\" width=\"{width}\" height=\"{height}\"></iframe>\
             <script>addEventListener('message', (event) => {{
               const result = document.createElement('pre');
               result.id = 'result';
               result.hidden = true;
               result.textContent = event.data;
               document.body.append(result);
             }});</script>"
        );
        std::fs::write(&opened, outer).unwrap();
    }

    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    std::fs::create_dir_all(&shots).unwrap();
    let shot = shots.join(format!("{page}-{}.png", view.name));
    let run = |action: &str| {
        let mut command = Command::new(program().unwrap());
        command
            .args(FLAGS)
            .args(["--hide-scrollbars", "--virtual-time-budget=4000"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!view.is_dark)))
            .arg(format!("--window-size={},{}", view.size.0, view.size.1))
            .arg(action)
            .arg(format!("file://{}", opened.display()));
        command.output().unwrap()
    };
    let seen = run("--dump-dom");
    let dom = String::from_utf8_lossy(&seen.stdout);
    let result = dom
        .split_once("<pre id=\"result\" hidden=\"\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .unwrap_or_else(|| panic!("no result: {}", String::from_utf8_lossy(&seen.stderr)))
        .0;
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["problems"], serde_json::json!([]), "{page}, {}", view.name);
    assert_eq!(result["fetched"], serde_json::json!([]), "{page}, {}", view.name);
    run(&format!("--screenshot={}", shot.display()));
    assert!(shot.exists(), "no screenshot of {page}");
    result["found"].clone()
}
