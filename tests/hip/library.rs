//! UX-54: the order of the search, what is refused, and one error that lists every path with its reason.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use zynfer::hip::library::{EMULATOR_SONAME, SONAMES};
use zynfer::hip::{Search, Version};

use crate::stub::Stub;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary folder")
}

/// The search with the loader's folders replaced by one of ours.
fn search(loader: &Path, rocm: &Path) -> Search {
    Search::amd_from(None, None, &SONAMES.map(|name| loader.join(name)), rocm)
}

fn version(major: u32) -> u32 {
    major * 10_000_000
}

#[test]
fn newest_major_first_then_older_then_the_plain_name() {
    let (loader, rocm) = (folder(), folder());
    for (index, name) in SONAMES.iter().enumerate().rev() {
        let number = version(7) + index as u32;
        Stub { version: number, ..Stub::default() }.build(loader.path(), name);
        let library = search(loader.path(), rocm.path()).open().expect("a stub opens");
        assert_eq!(library.path(), loader.path().join(name), "after adding {name}");
        assert_eq!(library.version(), Version::from_number(number));
        assert!(!library.is_emulator());
    }
}

#[test]
fn rocm_trees_come_after_the_loader_the_linked_one_first_then_the_highest_version() {
    let (loader, rocm) = (folder(), folder());
    let lib = |tree: &str| rocm.path().join(tree).join("lib");
    Stub { version: version(6) + 400_000, ..Stub::default() }.build(&lib("rocm-6.4.1"), "libamdhip64.so.6");
    let opened = |why: &str| search(loader.path(), rocm.path()).open().expect(why).path().to_owned();
    assert_eq!(opened("one tree"), lib("rocm-6.4.1").join("libamdhip64.so.6"));
    Stub::default().build(&lib("rocm-10.0.0"), "libamdhip64.so.7");
    assert_eq!(opened("two trees: 10 is more than 6"), lib("rocm-10.0.0").join("libamdhip64.so.7"));
    Stub::default().build(&lib("rocm"), "libamdhip64.so");
    assert_eq!(opened("the linked tree"), lib("rocm").join("libamdhip64.so"));
    Stub::default().build(loader.path(), "libamdhip64.so.6");
    assert_eq!(opened("the loader"), loader.path().join("libamdhip64.so.6"));
}

#[test]
fn an_old_package_on_the_loader_s_path_does_not_hide_a_newer_tree() {
    let (loader, rocm) = (folder(), folder());
    let old = Stub { version: 50_221_153, ..Stub::default() }.build(loader.path(), "libamdhip64.so.5");
    std::fs::copy(&old, loader.path().join("libamdhip64.so")).expect("the development package's plain name");
    let opened = || search(loader.path(), rocm.path()).open().expect("one opens").path().to_owned();
    assert_eq!(opened(), old, "better than nothing: its message says what it lacks");
    let lib = rocm.path().join("rocm-6.3.0/lib");
    Stub { version: 60_342_134, ..Stub::default() }.build(&lib, "libamdhip64.so.6");
    assert_eq!(opened(), old, "6.3 does not know gfx1201 either");
    let lib = rocm.path().join("rocm-6.4.0/lib");
    let new = Stub { version: 60_443_482, ..Stub::default() }.build(&lib, "libamdhip64.so.6");
    assert_eq!(opened(), new);
}

#[test]
fn a_library_that_lacks_a_symbol_is_passed_over_and_the_symbol_named() {
    let (loader, rocm) = (folder(), folder());
    let broken = Stub { without: Some("hipModuleLaunchKernel"), ..Stub::default() };
    let path = broken.build(loader.path(), "libamdhip64.so.7");
    let error = search(loader.path(), rocm.path()).open().expect_err("it lacks a symbol").to_string();
    let part = format!("{}: symbol `hipModuleLaunchKernel` is missing", path.display());
    assert!(error.contains(&part), "{error}");
    Stub { version: version(6), ..Stub::default() }.build(loader.path(), "libamdhip64.so.6");
    let library = search(loader.path(), rocm.path()).open().expect("the next one is whole");
    assert_eq!(library.path(), loader.path().join("libamdhip64.so.6"));
}

#[test]
fn an_old_version_and_a_new_one_without_its_properties_call_are_refused_with_the_numbers() {
    let (loader, rocm) = (folder(), folder());
    Stub { version: 4 * 10_000_000 + 400_000, ..Stub::default() }.build(loader.path(), "libamdhip64.so");
    let error = search(loader.path(), rocm.path()).open().expect_err("too old").to_string();
    assert!(error.contains("HIP 4.4.0 is too old, 5.0.0 or later is needed"), "{error}");
    Stub { version: version(6), versioned_properties: false, ..Stub::default() }
        .build(loader.path(), "libamdhip64.so.6");
    let error = search(loader.path(), rocm.path()).open().expect_err("which struct?").to_string();
    assert!(error.contains("HIP 6.0.0 without symbol `hipGetDevicePropertiesR0600`"), "{error}");
}

#[test]
fn nothing_found_lists_every_path_with_its_reason() {
    let (loader, rocm) = (folder(), folder());
    std::fs::write(loader.path().join("libamdhip64.so.6"), "not a library").expect("write");
    let error = search(loader.path(), rocm.path()).open().expect_err("there is none").to_string();
    for name in SONAMES {
        assert!(error.contains(&loader.path().join(name).display().to_string()), "{name} in {error}");
    }
    assert!(error.contains(&rocm.path().join("rocm/lib/libamdhip64.so").display().to_string()), "{error}");
    assert!(error.contains("No such file"), "{error}");
    assert!(error.contains("file too short") || error.contains("invalid ELF header"), "{error}");
    assert!(!error.contains('\n'), "one line: {error}");
}

#[test]
fn a_named_library_is_the_only_one_tried() {
    let (loader, rocm) = (folder(), folder());
    Stub::default().build(loader.path(), "libamdhip64.so.7");
    let named = loader.path().join("elsewhere.so");
    let sonames = SONAMES.map(|name| loader.path().join(name));
    for (flag, variable, source) in
        [(Some(named.as_os_str()), None, "--hip-library"), (None, Some(named.as_os_str()), "ZYNFER_HIP_LIBRARY")]
    {
        let error = Search::amd_from(flag, variable, &sonames, rocm.path()).open().expect_err("it is not there");
        assert_eq!(error.tried.len(), 1);
        assert!(error.to_string().contains(&format!("only the path named by {source}")), "{error}");
    }
    // The flag wins over the variable; an empty variable names nothing.
    let other = Stub { version: version(6), ..Stub::default() }.build(loader.path(), "other.so");
    let opened = Search::amd_from(Some(other.as_os_str()), Some(named.as_os_str()), &sonames, rocm.path()).open();
    assert_eq!(opened.expect("the flag's").path(), other);
    let opened = Search::amd_from(None, Some(OsStr::new("")), &sonames, rocm.path()).open();
    assert_eq!(opened.expect("as if unset").path(), loader.path().join("libamdhip64.so.7"));
}

#[test]
fn the_real_library_of_debian_opens_and_sees_no_card_without_crashing() {
    let path = PathBuf::from("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5");
    assert!(path.exists(), "install Debian's package libamdhip64-5 (./x test does)");
    let library = Search::amd_from(Some(path.as_os_str()), None, &[], Path::new("/opt")).open().expect("AMD's library");
    assert_eq!((library.version().major, library.version().minor), (5, 2));
    let devices = zynfer::hip::devices(&library).expect("no card is an empty list, not an error");
    // A machine with an older card would list it; none that this library knows is a gfx1201.
    assert!(devices.iter().all(|device| device.base_arch() != "gfx1201"), "{devices:?}");
}

#[test]
fn the_emulator_is_looked_for_beside_the_executable_and_above_it() {
    let here = folder();
    let executable = here.path().join("deps/test-0123");
    let search = Search::emulator_from(None, Some(&executable));
    let expected = [here.path().join("deps"), here.path().to_owned(), here.path().join("deps/deps")];
    assert_eq!(search.candidates(), expected.map(|folder| folder.join(EMULATOR_SONAME)));
    let named = Search::emulator_from(Some(OsStr::new("/x/y.so")), Some(&executable));
    assert_eq!(named.candidates(), [PathBuf::from("/x/y.so")]);
}

#[test]
fn the_emulator_opens_by_the_same_code_and_says_what_it_is() {
    let library = Search::emulator().open().expect("cargo builds it with this test");
    assert!(library.is_emulator());
    let devices = zynfer::hip::devices(&library).expect("one device");
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].arch, "gfx1201");
    assert!(devices[0].name.contains("emulator"), "{}", devices[0].name);
    assert_eq!(devices[0].uuid.as_deref(), Some("GPU-7a796e6665720001"));
    assert_eq!(devices[0].multiprocessor_count, 32);
    assert!(!devices[0].integrated);
}
