//! Files and folders for nobody else, in places that somebody else may have filled: what is there is never followed or waited for.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

use super::plain::is_plain_folder;
#[cfg(feature = "push")]
use super::plain::open_plain;

/// Makes a file that must not be there yet.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes a file in place of what has its name: of a link, the link goes and not what it leads to.
#[cfg(feature = "push")]
pub(crate) fn replace_private(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_private(path),
    }
}

/// Opens a plain file to read and write, as it is; one that is not there is made. For locks, which must not be replaced while
/// somebody holds them.
#[cfg(feature = "push")]
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    // Others may make it, or take it away, in between.
    let mut made = Err(io::ErrorKind::NotFound.into());
    for _ in 0..10 {
        match open_plain(path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        made = create_private(path);
        if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    made
}

/// Makes a folder, or takes one that is there.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    match builder().create(path) {
        // Not a link: nothing must be kept where nobody said.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_plain_folder(path) => {
            Ok(())
        }
        result => result,
    }
}

/// The same with all folders that lead to it.
pub(crate) fn private_folders(path: &Path) -> io::Result<()> {
    builder().recursive(true).create(path)?;
    match is_plain_folder(path) {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} is not a folder", path.display()))),
    }
}

fn builder() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are known on Unix only"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(all(test, unix, feature = "push"))]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn they_are_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let (above, inside) = (folder.path().join("a"), folder.path().join("a/b"));
        private_folders(&inside).unwrap();
        private_folders(&inside).unwrap();
        private_folder(&folder.path().join("c")).unwrap();
        assert_eq!(
            (mode(&above), mode(&inside), mode(&folder.path().join("c"))),
            (0o700, 0o700, 0o700)
        );
        for (name, make) in [
            ("created", create_private as fn(&Path) -> io::Result<File>),
            ("replaced", replace_private),
            ("opened", open_private),
        ] {
            make(&inside.join(name)).unwrap();
            assert_eq!(mode(&inside.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn links_and_pipes_are_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("outside"), "theirs").unwrap();
        for (name, target) in [("link", "outside"), ("dangling", "nowhere")] {
            symlink(at(target), at(name)).unwrap();
            assert!(create_private(&at(name)).is_err() && open_private(&at(name)).is_err());
            assert!(private_folder(&at(name)).is_err() && private_folders(&at(name)).is_err());
            replace_private(&at(name)).unwrap().write_all(b"ours").unwrap();
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "ours");
        }
        assert_eq!(fs::read_to_string(at("outside")).unwrap(), "theirs");
        assert!(!at("nowhere").exists());

        let pipe = at("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open_private(&pipe).is_err());
        replace_private(&pipe).unwrap();
        assert!(fs::symlink_metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn what_is_opened_keeps_what_it_has_and_what_is_replaced_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "before").unwrap();
        open_private(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        replace_private(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
