//! Joins similar marks, because in a job most ranks do the same at the same time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::picture::{Level, Mark};
use runlore_query::analyze::{Kind, Place};

/// Marks are simultaneous if they are at most 1/`SAME_TIME` of the picture's length apart.
const SAME_TIME: u64 = 100;
/// Maximum number of ranges of ranks that are named.
const NAMED: usize = 5;

/// A finding or a collector's message to mark.
pub(super) struct Occurrence {
    pub(super) at_ns: u64,
    pub(super) end_ns: u64,
    pub(super) level: Level,
    pub(super) panel: Option<usize>,
    pub(super) what: String,
    pub(super) place: Place,
    /// The finding's index and kind. `None` for a collector's message.
    pub(super) finding: Option<(usize, Kind)>,
}

/// The rank, the device, and the session, job and host.
type PlaceKey = (Option<u64>, Option<i64>, [Option<String>; 3]);

fn key_of(place: &Place) -> PlaceKey {
    let Place { session_id, job_id, host, .. } = place.clone();
    (place.rank, place.device_id, [session_id, job_id, host])
}

/// Similar marks.
struct Group {
    members: Vec<Occurrence>,
    places: HashSet<PlaceKey>,
    at_ns: u64,
    end_ns: u64,
}

/// Joins similar marks. Returns the marks, suspected first causes first and then the worst, and for
/// each of the `findings` findings the number of its mark, counted from 1.
pub(super) fn joined(
    mut all: Vec<Occurrence>,
    findings: usize,
    length_ns: u64,
) -> (Vec<Mark>, Vec<Option<usize>>) {
    all.sort_by_key(|one| (one.at_ns, one.finding));
    let mut groups: Vec<Group> = Vec::new();
    // The latest group of each kind and panel, which may still grow.
    let mut open: BTreeMap<(Option<usize>, Level, Option<Kind>, String), usize> = BTreeMap::new();
    for one in all {
        let kind = one.finding.map(|(_, kind)| kind);
        let what = if kind.is_some() { String::new() } else { one.what.clone() };
        let key = (one.panel, one.level, kind, what);
        let known = open.get(&key).map(|&at| &mut groups[at]);
        match known.filter(|group| group.goes_on(&one, length_ns)) {
            Some(group) => {
                group.end_ns = group.end_ns.max(one.end_ns);
                group.places.insert(key_of(&one.place));
                group.members.push(one);
            }
            None => {
                open.insert(key, groups.len());
                groups.push(Group {
                    at_ns: one.at_ns,
                    end_ns: one.end_ns,
                    places: HashSet::from([key_of(&one.place)]),
                    members: vec![one],
                });
            }
        }
    }
    groups.sort_by_key(Group::order);
    let mut numbers = vec![None; findings];
    for (at, group) in groups.iter().enumerate() {
        for (number, _) in group.members.iter().filter_map(|one| one.finding) {
            numbers[number] = Some(at + 1);
        }
    }
    (groups.iter().map(Group::mark).collect(), numbers)
}

impl Group {
    fn goes_on(&self, one: &Occurrence, length_ns: u64) -> bool {
        let is_near = one.at_ns <= self.end_ns.saturating_add(length_ns / SAME_TIME);
        // Two findings of the same kind in the same place stay separate.
        is_near && (one.finding.is_none() || !self.places.contains(&key_of(&one.place)))
    }

    fn order(&self) -> (bool, Reverse<Level>, bool, usize, u64) {
        let first = &self.members[0];
        let kind = first.finding.map(|(_, kind)| kind);
        let numbers = self.members.iter().filter_map(|one| one.finding.map(|(number, _)| number));
        let is_cause = kind == Some(Kind::FirstCause);
        (!is_cause, Reverse(first.level), kind.is_none(), numbers.min().unwrap_or(0), self.at_ns)
    }

    fn mark(&self) -> Mark {
        let first = &self.members[0];
        let places = self.where_it_was();
        let is_alike = self.members.iter().all(|one| one.what == first.what);
        let like = if is_alike { "" } else { "such as: " };
        let text = match first.finding {
            Some((_, kind)) if places.is_empty() => format!("{kind}: {}", first.what),
            Some((_, kind)) => format!("{kind} ({places}): {like}{}", first.what),
            None => format!("{} ({places})", first.what),
        };
        Mark {
            at_ns: self.at_ns,
            end_ns: self.end_ns,
            level: first.level,
            text,
            panel: first.panel,
        }
    }

    /// Returns the places of the group as text.
    fn where_it_was(&self) -> String {
        let first = &self.members[0].place;
        let times = self.members.len();
        if times == 1 {
            return first.to_string();
        }
        if self.places.len() == 1 {
            return format!("{first}, {times} times");
        }
        let ranks: BTreeSet<u64> = self.members.iter().filter_map(|one| one.place.rank).collect();
        match ranks.len() {
            0 | 1 => format!("{first} and {} more", times - 1),
            count => format!("{count} ranks: {}", ranges(&ranks)),
        }
    }
}

/// Formats numbers as ranges: `0 to 10, 12`.
fn ranges(numbers: &BTreeSet<u64>) -> String {
    let all: Vec<u64> = numbers.iter().copied().collect();
    let stretches: Vec<&[u64]> = all.chunk_by(|one, next| one + 1 == *next).collect();
    let told = stretches.iter().take(NAMED).map(|stretch| match stretch {
        [first, _, .., last] => format!("{first} to {last}"),
        few => few.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    });
    let more = if stretches.len() > NAMED { " and more" } else { "" };
    format!("{}{more}", told.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rank: u64, at_ns: u64, number: usize, kind: Kind) -> Occurrence {
        Occurrence {
            at_ns,
            end_ns: at_ns + 10,
            level: Level::Warning,
            panel: Some(0),
            what: "4 GiB more".to_owned(),
            place: Place { rank: Some(rank), device_id: Some(0), ..Place::default() },
            finding: Some((number, kind)),
        }
    }

    #[test]
    fn ranks_that_do_the_same_are_one_mark_after_the_one_that_began_it() {
        let mut all: Vec<Occurrence> = (0..16)
            .filter(|rank| *rank != 11)
            .map(|rank| found(rank, 2100 + rank % 3, rank as usize, Kind::Step))
            .collect();
        all.push(found(11, 1400, 11, Kind::Step));
        all.push(found(11, 1400, 16, Kind::FirstCause));
        let (marks, numbers) = joined(all, 17, 3900);
        let texts: Vec<&str> = marks.iter().map(|mark| &*mark.text).collect();
        assert_eq!(
            texts,
            [
                "first_cause (rank 11, device 0): 4 GiB more",
                "step (15 ranks: 0 to 10, 12 to 15): 4 GiB more",
                "step (rank 11, device 0): 4 GiB more",
            ]
        );
        assert_eq!((numbers[16], numbers[3], numbers[11]), (Some(1), Some(2), Some(3)));
        assert_eq!((marks[1].at_ns, marks[1].end_ns), (2100, 2112));
    }

    #[test]
    fn what_is_found_twice_in_one_place_is_marked_twice() {
        let all = vec![found(0, 100, 0, Kind::Step), found(0, 105, 1, Kind::Step)];
        assert_eq!(joined(all, 2, 1000).0.len(), 2);
    }

    #[test]
    fn many_ranks_are_told_shortly() {
        let odd: BTreeSet<u64> = (0..40).filter(|rank| rank % 2 == 1).collect();
        assert_eq!(ranges(&odd), "1, 3, 5, 7, 9 and more");
        assert_eq!(ranges(&BTreeSet::from([1, 2, 7])), "1, 2, 7");
    }
}
