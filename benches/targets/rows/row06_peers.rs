//! Row 6: a complete capture against other libraries.

use std::fs::File;
use std::net::{TcpListener, TcpStream};

use crate::measure::{Cases, Report};
use crate::peers::{python, telemetry};
use crate::row::{Bound, Contender, Line, Row, Unit, Value};

const FEW: &str = "few descriptors";
const MANY: &str = "200 descriptors";

pub(crate) static ROW: Row = Row {
    number: 6,
    rounds: 5,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "procfs", run: by_procfs },
        Contender { name: "sysinfo", run: by_sysinfo },
        Contender { name: "psutil", run: by_psutil },
        Contender { name: "Flowcept", run: by_flowcept },
    ],
    lines: &[
        line("complete capture", FEW, "the crate procfs", "procfs", 0.30),
        line("complete capture", FEW, "the crate sysinfo", "sysinfo", 0.12),
        line("complete capture", FEW, "psutil", "psutil", 0.08),
        line("complete capture", FEW, "Flowcept", "Flowcept", 0.08),
        line("the same, 100 files and 100 sockets open", MANY, "Flowcept", "Flowcept", 0.02),
    ],
};

const fn line(
    what: &'static str,
    case: &'static str,
    against: &'static str,
    contender: &'static str,
    most: f64,
) -> Line {
    Line {
        what,
        ours: Value::of("ours", case),
        theirs: Some((against, Value::of(contender, case))),
        unit: Unit::Nanoseconds,
        bound: Bound::AtMost(most),
    }
}

fn ours(report: &mut Report) {
    telemetry::close_inherited();
    let capture = telemetry::complete();
    let mut bytes = Vec::new();
    Cases::pure().case(FEW, 100, || telemetry::capture_into(&capture, &mut bytes)).measure(report);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let connect = || {
        let out = TcpStream::connect(address).expect("a connection");
        (out, listener.accept().expect("its other end").0)
    };
    let sockets: Vec<_> = (0..50).map(|_| connect()).collect();
    let files: Vec<_> = (0..100).map(|_| File::open("/proc/self/exe").expect("a file")).collect();
    Cases::pure().case(MANY, 50, || telemetry::capture_into(&capture, &mut bytes)).measure(report);
    drop((sockets, files));
}

fn by_procfs(report: &mut Report) {
    telemetry::close_inherited();
    Cases::pure().case(FEW, 20, telemetry::by_procfs::capture).measure(report);
}

fn by_sysinfo(report: &mut Report) {
    telemetry::close_inherited();
    let mut peer = telemetry::by_sysinfo::Peer::new();
    Cases::pure().case(FEW, 20, || peer.capture()).measure(report);
}

fn by_psutil(report: &mut Report) {
    python::report("psutil==7.2.2", "capture.py", &["psutil", FEW, MANY], report);
}

fn by_flowcept(report: &mut Report) {
    python::report("flowcept[telemetry]==1.0.3", "capture.py", &["flowcept", FEW, MANY], report);
}
