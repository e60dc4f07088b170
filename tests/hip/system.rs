//! UX-57, UX-58: each state of the driver's device node gives its own line with its own fix.

use std::io::{Error, ErrorKind};

use zynfer::hip::system::{Driver, Surroundings};

fn surroundings(kfd: Result<(), Error>) -> Surroundings {
    Surroundings {
        kfd,
        kfd_group: Some(992),
        dxg: false,
        groups: vec![1000, 44],
        group_file: "root:x:0:\nvideo:x:44:me\nrender:x:992:\n".into(),
        container: false,
    }
}

fn error(kind: ErrorKind) -> Result<(), Error> {
    Err(Error::from(kind))
}

#[test]
fn present_needs_no_advice() {
    assert_eq!(surroundings(Ok(())).driver(), Driver::Present);
    assert_eq!(Driver::Present.advice(), None);
}

#[test]
fn absent_differs_inside_a_container_and_under_wsl() {
    let absent = surroundings(error(ErrorKind::NotFound));
    assert_eq!(absent.driver(), Driver::Absent { container: false });
    assert!(absent.driver().advice().is_some_and(|line| line.contains("modprobe amdgpu")));
    let inside = Surroundings { container: true, ..surroundings(error(ErrorKind::NotFound)) };
    assert!(inside.driver().advice().is_some_and(|line| line.contains("--device /dev/kfd --device /dev/dri")));
    let wsl = Surroundings { dxg: true, ..surroundings(error(ErrorKind::NotFound)) };
    assert_eq!(wsl.driver(), Driver::Wsl);
    assert!(wsl.driver().advice().is_some_and(|line| line.starts_with("WSL (ROCDXG)")));
}

#[test]
fn a_denied_node_names_the_group_that_owns_it_and_looks_whether_one_is_in_it() {
    let denied = surroundings(error(ErrorKind::PermissionDenied));
    assert_eq!(denied.driver(), Driver::Denied { group: "render".into(), member: false }, "in video, not in render");
    assert!(denied.driver().advice().is_some_and(|line| line.contains("usermod -aG render $USER")));
    let member = Surroundings { groups: vec![992], ..surroundings(error(ErrorKind::PermissionDenied)) };
    assert_eq!(member.driver(), Driver::Denied { group: "render".into(), member: true });
    assert!(member.driver().advice().is_some_and(|line| !line.contains("usermod")));
    let unnamed = Surroundings { group_file: String::new(), ..surroundings(error(ErrorKind::PermissionDenied)) };
    assert_eq!(unnamed.driver(), Driver::Denied { group: "992".into(), member: false });
}

#[test]
fn another_failure_keeps_the_system_s_words() {
    let enomem = surroundings(Err(Error::from_raw_os_error(12)));
    let advice = enomem.driver().advice().expect("a line");
    assert!(advice.contains("Cannot allocate memory"), "{advice}");
}

#[test]
fn this_machine_can_be_looked_at() {
    let here = Surroundings::here();
    assert!(!here.groups.is_empty(), "a process has at least one group");
    let _ = here.driver();
}
