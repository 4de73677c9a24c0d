//! Creates files and folders with the permissions of the settings, whatever the umask is.
//!
//! [`create_private`] and the functions like it are for folders that other users may write to. They
//! never follow links and never block on pipes. [`create_file`] and the functions like it are for
//! paths that the user named.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::plain::is_plain_folder;
use super::plain::open_plain;
use crate::record::Id;
use crate::settings::{FileMode, Settings};

/// The permissions of new files. 0 until they are first needed. Not a lock, because a forked child
/// may be the first to need them.
static MODE: AtomicU32 = AtomicU32::new(0);
/// The permissions of new folders.
static FOLDER_MODE: AtomicU32 = AtomicU32::new(0);

/// Sets the permissions of new files and folders.
pub fn set_file_mode(mode: FileMode) {
    FOLDER_MODE.store(mode.of_folders(), Ordering::Relaxed);
    MODE.store(mode.of_files(), Ordering::Release);
}

/// Returns the permissions of new files and folders. Loads the settings if none are in use yet.
fn modes() -> (u32, u32) {
    if MODE.load(Ordering::Acquire) == 0 {
        set_file_mode(Settings::load().settings.recorder.file_mode);
    }
    (MODE.load(Ordering::Acquire), FOLDER_MODE.load(Ordering::Relaxed))
}

/// Creates a file. Fails if it exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    create_new(path, options)
}

/// Like [`create_private`], for a file that is only appended to.
pub fn create_private_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true);
    create_new(path, options)
}

fn create_new(path: &Path, mut options: OpenOptions) -> io::Result<File> {
    options.create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, modes().0);
    let file = options.open(path)?;
    #[cfg(unix)]
    widen(&file);
    Ok(file)
}

/// Restores the permission bits that the umask removed from a new file.
#[cfg(unix)]
fn widen(file: &File) {
    use std::os::unix::fs::PermissionsExt as _;
    let wanted = modes().0;
    let has = |facts: fs::Metadata| facts.permissions().mode() & 0o777;
    if file.metadata().map(has).is_ok_and(|mode| mode != wanted) {
        // Some file systems have no permissions.
        _ = file.set_permissions(fs::Permissions::from_mode(wanted));
    }
}

/// Opens a file and truncates it.
///
/// A new file gets the permissions of the setting `recorder.file_mode`, `0600` by default. An
/// existing file keeps its permissions. Links are followed.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("runlore-doc-create-{}", std::process::id()));
/// let mut file = runlore::store::create_file(&path)?;
/// std::io::Write::write_all(&mut file, b"for nobody else")?;
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If the file cannot be created or opened.
pub fn create_file(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    open_or_create(path.as_ref(), options)
}

/// Like [`create_file`], for a file that is appended to.
pub fn append_to_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    open_or_create(path, options)
}

fn open_or_create(path: &Path, mut options: OpenOptions) -> io::Result<File> {
    match create_new(path, options.clone()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A link may point to a file that does not exist yet.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, modes().0);
            options.create_new(false).create(true).open(path)
        }
        made => made,
    }
}

/// Replaces the content of a file atomically: readers see the old content until the new one is
/// complete.
///
/// Creates missing folders. If the path is not a regular file, such as `/dev/stdout`, the content
/// is written to it directly. Permissions are those of [`create_file`].
///
/// ```
/// # let path = std::env::temp_dir().join(format!("runlore-doc-write-{}", std::process::id()));
/// runlore::store::write_file(&path, b"for nobody else")?;
/// assert_eq!(std::fs::read(&path)?, b"for nobody else");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If the file cannot be written. It then keeps its old content.
pub fn write_file(path: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    // Replace the target of a link, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|facts| !facts.is_file() && !facts.is_dir()) {
        return fs::write(path, content);
    }
    let above = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = above.filter(|folder| !folder.exists()) {
        create_folders(folder)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The name is unique because threads may write to the same file at the same time.
    let part = path.with_file_name(format!(".{name}.{}.part", Id::new()));
    let written = create_private(&part).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(there) = there {
            _ = file.set_permissions(there.permissions());
        }
        fs::rename(&part, path)
    });
    written.inspect_err(|_| _ = fs::remove_file(&part))
}

/// Creates a folder and its missing parents. New folders get the permissions of the setting
/// `recorder.file_mode`, `0700` by default.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("runlore-doc-folders-{}", std::process::id()));
/// runlore::store::create_folders(path.join("a/b"))?;
/// assert!(path.join("a/b").is_dir());
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If a folder cannot be created.
pub fn create_folders(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    match create_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(above) = path.parent().filter(|above| *above != Path::new("")) else {
                return if path.as_os_str().is_empty() { Ok(()) } else { Err(error) };
            };
            create_folders(above)?;
            match create_folder(path) {
                Err(_) if path.is_dir() => Ok(()),
                made => made,
            }
        }
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

/// Creates a folder. Fails if it exists.
pub fn create_folder(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are known on Unix only"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, modes().1);
    builder.create(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let wanted = modes().1;
        let has = |facts: fs::Metadata| facts.permissions().mode() & 0o777;
        // Restore the bits that the umask removed.
        if fs::symlink_metadata(path).map(has).is_ok_and(|mode| mode != wanted) {
            _ = fs::set_permissions(path, fs::Permissions::from_mode(wanted));
        }
    }
    Ok(())
}

/// Creates a file in place of whatever has its name. Of a link, only the link itself is removed.
pub fn replace_private(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_private(path),
    }
}

/// Opens a regular file for reading and writing, without truncating it. Creates it if it is
/// missing. For lock files, which must not be replaced while somebody holds them.
pub fn open_private(path: &Path) -> io::Result<File> {
    // Other processes may create or delete the file in between.
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

/// Creates a folder. Succeeds if it exists.
pub fn private_folder(path: &Path) -> io::Result<()> {
    match create_folder(path) {
        // A link is rejected: it would lead to a place that nobody chose.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_plain_folder(path) => {
            Ok(())
        }
        result => result,
    }
}

/// Like [`private_folder`], and creates missing parents.
pub fn private_folders(path: &Path) -> io::Result<()> {
    create_folders(path)?;
    match is_plain_folder(path) {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} is not a folder", path.display()))),
    }
}

#[cfg(all(test, unix))]
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
