//! `koze cp`.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use koze_tests::{Sandboxes, eventually, signal};
use serde_json::json;

use crate::common::{printed, sandboxes};

/// Copies successfully and silently.
fn copy(host: &Sandboxes, from: &str, to: &str) {
    assert_eq!(printed(&host.koze(&["cp", from, to])), "0\n", "{from} {to}");
}

/// Returns the outputs of a failed copy.
fn refused(host: &Sandboxes, from: &str, to: &str) -> String {
    printed(&host.koze(&["cp", from, to]))
}

/// Returns what a command in the default sandbox prints.
fn inside(host: &Sandboxes, command: &str) -> String {
    let result = host.call("shell", &json!({ "command": command }), &[]);
    format!("{}{}", result["stdout"].as_str().unwrap(), result["stderr"].as_str().unwrap())
}

fn mode(host: &Sandboxes, path: &str) -> u32 {
    fs::symlink_metadata(host.path(path)).unwrap().permissions().mode() & 0o7777
}

/// Returns the names of the package's directory that a copy would leave behind.
fn left(host: &Sandboxes) -> Vec<String> {
    let names = fs::read_dir(host.dir()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".koze-cp-")).collect()
}

#[test]
fn files_keep_their_bytes_and_modes() {
    let host = sandboxes();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    host.write("ä b", &bytes);
    fs::set_permissions(host.path("ä b"), fs::Permissions::from_mode(0o750)).unwrap();
    copy(&host, "ä b", "default:new/dir/x");
    assert_snapshot!(inside(&host, "stat -c '%a %s' new/dir/x"), @"750 300000");
    copy(&host, "default:new/dir/x", "back");
    assert_eq!(fs::read(host.path("back")).unwrap(), bytes);
    assert_eq!(mode(&host, "back"), 0o750);
    // Replacing a file keeps its mode, on both sides.
    host.write("back", "old");
    fs::set_permissions(host.path("back"), fs::Permissions::from_mode(0o640)).unwrap();
    inside(&host, "chmod 4711 new/dir/x");
    copy(&host, "default:new/dir/x", "back");
    assert_eq!((fs::read(host.path("back")).unwrap(), mode(&host, "back")), (bytes, 0o640));
    copy(&host, "back", "default:new/dir/x");
    assert_snapshot!(inside(&host, "stat -c '%a %s' new/dir/x"), @"4711 300000");
    // A file of the sandbox never becomes a set-user-ID program of this machine.
    copy(&host, "default:new/dir/x", "fresh");
    assert_eq!(mode(&host, "fresh"), 0o711);
    // Into directories, under the file's own name.
    fs::create_dir(host.path("dir")).unwrap();
    copy(&host, "default:new/dir/x", "dir");
    copy(&host, "dir/x", "default:new/");
    copy(&host, "dir/x", "default:/tmp");
    copy(&host, "dir/x", "default:not/yet/");
    assert_snapshot!(inside(&host, "cmp new/x /tmp/x && cmp new/x not/yet/x && echo same"), @"same");
    assert_eq!(left(&host), [""; 0]);
}

#[test]
fn trees_keep_links_modes_names_and_empty_directories() {
    let host = sandboxes();
    host.write("tree/sub/run", "#!/bin/sh\n").write("tree/ü x/y", "y");
    fs::set_permissions(host.path("tree/sub/run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(host.path("tree/empty")).unwrap();
    host.write("secret", "of the host");
    symlink(host.path("secret"), host.path("tree/link")).unwrap();
    copy(&host, "tree", "default:t");
    // Links are copied and not followed: what they lead to stays where it is.
    assert_snapshot!(inside(&host, "cd t; find . -printf '%M %P\n' | sort -k2; cat link 2>/dev/null || echo dangling"), @"
    drwxr-xr-x 
    drwxr-xr-x empty
    lrwxrwxrwx link
    drwxr-xr-x sub
    -rwxr-xr-x sub/run
    drwxr-xr-x ü x
    -rw-r--r-- ü x/y
    dangling
    ");
    inside(&host, "ln -s /etc/passwd t/passwd; chmod 6755 t/sub/run; chmod 1777 t/empty");
    copy(&host, "default:t", "back");
    assert_eq!(fs::read_link(host.path("back/passwd")).unwrap().to_str(), Some("/etc/passwd"));
    assert_eq!(fs::read(host.path("back/ü x/y")).unwrap(), b"y");
    assert_eq!((mode(&host, "back/sub/run"), mode(&host, "back/empty")), (0o755, 0o777));
    // In an existing directory, and never merged with one.
    copy(&host, "default:t", "back");
    assert!(host.path("back/t/sub/run").exists());
    assert!(refused(&host, "default:t", "back").contains("already exists, and a directory is never merged"));
    copy(&host, "tree", "default:t");
    assert_snapshot!(refused(&host, "tree", "default:t"), @"
    1
    error[already_exists]: `/home/user/t/tree` already exists: use another path
    ");
    assert_eq!(left(&host), [""; 0]);
}

#[test]
fn standard_input_and_output() {
    let host = sandboxes();
    let piped = |text: &str, to: &str| printed(&host.piped(text, &["cp", "-", to]));
    assert_eq!(piped(r"a\000b", "default:x"), "0\n");
    assert_eq!(host.koze(&["cp", "default:x", "-"]).stdout, "a\0b");
    assert_eq!(piped("", "default:empty"), "0\n");
    assert_snapshot!(inside(&host, "stat -c '%s %a' empty"), @"0 644");
    assert_snapshot!(piped("a", "default:/tmp"), @"
    1
    error[is_directory]: `/tmp` is a directory, and what is copied has no name: add one to the path
    ");
    assert_snapshot!(refused(&host, "default:/home", "-"), @"
    1
    error[is_directory]: `/home` is a directory: only a file can be written to standard output
    ");
}

#[test]
fn between_sandboxes() {
    let host = sandboxes();
    inside(&host, "mkdir -p t/a; echo 1 > t/a/f; echo 2 > g");
    copy(&host, "default:t", "other:t");
    copy(&host, "default:g", "other:t");
    let listed = host.call("shell", &json!({ "sandbox": "other", "command": "cat t/a/f t/g" }), &[]);
    assert_eq!(listed["stdout"], "1\n2\n");
}

#[test]
fn what_cannot_be_copied() {
    let host = sandboxes();
    inside(&host, "mkfifo pipe; mkdir t; mkfifo t/p; echo x > f");
    host.write("here", "x");
    assert_snapshot!(refused(&host, "a", "b"), @"
    2
    error: one of the two is in a sandbox: write it as `NAME:PATH`, such as `default:report.csv`
    ");
    assert_snapshot!(refused(&host, "none", "default:x"), @"
    1
    error[not_found]: `none`: No such file or directory (os error 2)
    ");
    assert_snapshot!(refused(&host, "default:none", "x"), @"
    1
    error[not_found]: /home/user/none does not exist
    ");
    assert_snapshot!(refused(&host, "nobody:f", "x"), @"
    1
    error[not_found]: there is no sandbox `nobody` in this session
    ");
    assert_snapshot!(refused(&host, "default:f", "none/"), @"
    1
    error[not_a_directory]: `none/` is not a directory: create it first, or leave out the last `/`
    ");
    assert_snapshot!(refused(&host, "default:f", "/dev/null"), @"
    1
    error[unsupported]: `/dev/null` is not a regular file; `-` writes to standard output
    ");
    assert_snapshot!(refused(&host, "/dev/null", "default:x"), @"
    1
    error[unsupported]: `/dev/null` is not a regular file or directory; `-` reads standard input
    ");
    assert_snapshot!(refused(&host, "default:pipe", "x"), @"
    1
    error[invalid_input]: /home/user/pipe is a pipe, socket or device
    ");
    assert_snapshot!(refused(&host, "default:t", "x"), @"
    1
    error[unsupported]: /home/user/t/p cannot be copied: it is not a file, directory or symbolic link
    ");
    assert_snapshot!(refused(&host, "here", "default:/usr/x"), @"
    1
    error[permission_denied]: /usr/x belongs to the system and cannot be changed
    ");
    assert!(!host.path("x").exists());
    assert_eq!(left(&host), [""; 0]);
}

#[test]
fn a_link_to_a_file_is_followed_and_a_dangling_one_is_not_replaced() {
    let host = sandboxes();
    host.write("real", "old");
    symlink("real", host.path("link")).unwrap();
    symlink("nothing", host.path("dangling")).unwrap();
    inside(&host, "echo new > f; ln -s f g");
    copy(&host, "default:g", "link");
    assert_eq!(host.read("real"), "new\n");
    assert!(fs::symlink_metadata(host.path("link")).unwrap().is_symlink());
    assert!(refused(&host, "default:g", "dangling").starts_with("1\nerror[not_found]"));
    assert!(!host.path("nothing").exists());
    copy(&host, "link", "default:h");
    assert_snapshot!(inside(&host, "cat h; test -L h || echo file"), @"
    new
    file
    ");
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let host = sandboxes();
    inside(&host, "echo old > x; mkdir t; head -c 50000000 /dev/zero > t/f");
    for (name, kill) in [("SIGINT", rustix::process::Signal::INT), ("SIGKILL", rustix::process::Signal::KILL)]
    {
        let mut koze = host.command(&["cp", "-", "default:x"]);
        let mut koze = koze.stdin(Stdio::piped()).spawn().unwrap();
        // Open until the end: `wait` would close it, and the copy would be whole.
        let mut stdin = koze.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"half").unwrap();
        eventually("it writes", || inside(&host, "ls -A").contains(".koze-upload-"));
        signal(i32::try_from(koze.id()).unwrap(), kill);
        let status = koze.wait().unwrap();
        drop(stdin);
        if name == "SIGINT" {
            assert_eq!(status.code(), Some(130));
        }
        eventually("nothing is left", || inside(&host, "ls -A; cat x") == "t\nx\nold\n");
    }
}

/// Returns the same command, which the kernel kills when it writes more than 40 MiB to a file.
fn killed_in_the_middle(command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -c 0; ulimit -f 81920; exec \"$0\" \"$@\""]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().expect("the project"));
    limited
}

#[test]
fn a_killed_copy_of_a_large_file_goes_on_where_it_was() {
    let host = sandboxes();
    let size = 100 << 20;
    inside(&host, &format!("head -c {size} /dev/zero > big"));
    host.write("copy", "old");
    let status = killed_in_the_middle(&host.command(&["cp", "default:big", "copy"])).status().unwrap();
    assert_eq!(status.signal(), Some(rustix::process::Signal::XFSZ.as_raw()));
    assert_eq!(fs::read(host.path("copy")).unwrap(), b"old");
    let [part] = &left(&host)[..] else { panic!("{:?}", left(&host)) };
    assert_eq!(fs::metadata(host.path(part)).unwrap().len(), 40 << 20);
    // What is there is not copied again: a mark in it stays.
    let file = fs::OpenOptions::new().write(true).open(host.path(part)).unwrap();
    file.write_all_at(b"mark", 5).unwrap();
    drop(file);
    copy(&host, "default:big", "copy");
    let copied = fs::read(host.path("copy")).unwrap();
    assert_eq!((copied.len(), &copied[..10]), (size, &b"\0\0\0\0\0mark\0"[..]));
    assert!(copied[10..].iter().all(|byte| *byte == 0));
    assert_eq!(left(&host), [""; 0]);

    // Another version starts over.
    killed_in_the_middle(&host.command(&["cp", "default:big", "copy"])).status().unwrap();
    inside(&host, "printf x | dd of=big conv=notrunc 2> /dev/null");
    copy(&host, "default:big", "copy");
    let copied = fs::read(host.path("copy")).unwrap();
    assert!(copied.len() == size && copied[0] == b'x' && copied[1..].iter().all(|byte| *byte == 0));
    assert_eq!(left(&host), [""; 0]);
}

#[test]
fn more_than_the_disk_has_room_for() {
    let host = sandboxes();
    inside(&host, "echo old > x");
    let huge = fs::File::create(host.path("huge")).unwrap();
    // Sparse, so that it costs nothing here.
    huge.set_len(64 << 30).unwrap();
    assert_snapshot!(refused(&host, "huge", "default:x"), @"
    1
    error[too_large]: the file does not fit on the sandbox's disk
    ");
    assert_snapshot!(inside(&host, "ls -A; cat x"), @"
    x
    old
    ");
}
