//! UX-56: which card is taken, which are left out and why; read through the C ABI, from both properties structs.

use std::ffi::OsString;
use std::path::Path;

use zynfer::hip::device::DeviceInfo;
use zynfer::hip::{DeviceError, Search, Selector, choose, devices, system};

use crate::stub::{Card, Stub};

const SUPPORTED: &[&str] = &["gfx1201"];

fn igpu() -> Card {
    Card { name: "AMD Radeon Graphics", arch: "gfx1036", gib_sixteenths: 8, integrated: true, uuid: None }
}

fn card(gib: u64, uuid: &'static str) -> Card {
    Card {
        name: "AMD Radeon AI PRO R9700",
        arch: "gfx1201",
        gib_sixteenths: gib * 16,
        integrated: false,
        uuid: Some(uuid),
    }
}

fn listed(stub: &Stub) -> Vec<DeviceInfo> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = stub.build(folder.path(), "libamdhip64.so");
    let library = Search::amd_from(Some(path.as_os_str()), None, &[], Path::new("/opt")).open().expect("a stub opens");
    devices(&library).expect("a stub lists")
}

fn chosen(devices: &[DeviceInfo], selector: &str) -> Result<u32, DeviceError> {
    choose(devices, &selector.parse()?, SUPPORTED).map(|choice| choice.device.ordinal)
}

#[test]
fn the_integrated_one_is_left_out_in_either_order() {
    let dgpu = card(16, "0123456789abcdef");
    for (cards, at) in [(vec![igpu(), dgpu.clone()], 1u32), (vec![dgpu.clone(), igpu()], 0)] {
        let devices = listed(&Stub { cards, ..Stub::default() });
        let choice = choose(&devices, &Selector::Auto, SUPPORTED).expect("one fits");
        assert_eq!(choice.device.ordinal, at);
        assert_eq!(choice.device.vram_bytes, 16 << 30);
        assert_eq!(choice.device.uuid.as_deref(), Some("GPU-0123456789abcdef"));
        assert_eq!(choice.device.pci, format!("0000:{:02x}:00.0", at + 3));
        let [(left, why)] = choice.left_out.as_slice() else { panic!("{:?}", choice.left_out) };
        assert!(left.integrated && left.vram_bytes == 512 << 20 && left.uuid.is_none(), "{left:?}");
        assert!(why.contains("gfx1036") && why.contains("gfx1201"), "{why}");
    }
}

#[test]
fn the_architecture_comes_from_the_struct_of_the_library_s_major() {
    let cards = vec![igpu(), card(16, "0123456789abcdef")];
    let old = Stub { version: 50_221_153, versioned_properties: false, cards: cards.clone(), ..Stub::default() };
    let new = Stub { version: 60_400_000, versioned_properties: true, cards, ..Stub::default() };
    for stub in [old, new] {
        let archs: Vec<String> = listed(&stub).into_iter().map(|device| device.arch).collect();
        assert_eq!(archs, ["gfx1036", "gfx1201"], "HIP {}", stub.version);
    }
}

#[test]
fn most_memory_wins_then_the_lowest_number() {
    let devices = listed(&Stub {
        cards: vec![card(16, "aaaaaaaaaaaaaaaa"), card(32, "bbbbbbbbbbbbbbbb"), card(32, "cccccccccccccccc")],
        ..Stub::default()
    });
    let choice = choose(&devices, &Selector::Auto, SUPPORTED).expect("three fit");
    assert_eq!(choice.device.ordinal, 1);
    let why: Vec<&str> = choice.left_out.iter().map(|(_, why)| why.as_str()).collect();
    assert!(why[0].contains(&(16u64 << 30).to_string()) && why[0].contains(&(32u64 << 30).to_string()), "{why:?}");
    assert!(why[1].contains("equal to device 1"), "{why:?}");
}

#[test]
fn a_number_or_an_id_is_taken_at_its_word_or_refused() {
    let cards = vec![card(16, "aaaaaaaaaaaaaaaa"), igpu(), card(32, "bbbbbbbbbbbbbbbb")];
    let devices = listed(&Stub { cards, ..Stub::default() });
    assert_eq!(chosen(&devices, "0"), Ok(0));
    assert_eq!(chosen(&devices, "GPU-AAAAAAAAAAAAAAAA"), Ok(0));
    assert_eq!(chosen(&devices, "auto"), Ok(2));
    assert_eq!(chosen(&devices, "3"), Err(DeviceError::NoSuchOrdinal { asked: 3, count: 3 }));
    let unsupported = chosen(&devices, "1").expect_err("no machine code for it").to_string();
    assert!(unsupported.contains("gfx1036") && unsupported.contains("gfx1201"), "{unsupported}");
    let unknown = chosen(&devices, "GPU-dead").expect_err("no such card").to_string();
    assert!(unknown.contains("GPU-dead") && unknown.contains("GPU-bbbbbbbbbbbbbbbb"), "{unknown}");
    for text in ["", "-1", "first", "GPU-", "GPU-xyz", "4294967296", "0,1"] {
        assert_eq!(text.parse::<Selector>(), Err(DeviceError::Selector(text.into())), "`{text}`");
    }
}

#[test]
fn features_behind_the_name_do_not_matter_and_a_longer_name_is_another_architecture() {
    for (arch, fits) in [("gfx1201", true), ("gfx1201:sramecc-:xnack-", true), ("gfx1200", false), ("gfx12010", false)]
    {
        let devices = listed(&Stub { cards: vec![Card { arch, ..card(16, "aaaaaaaaaaaaaaaa") }], ..Stub::default() });
        assert_eq!(devices[0].arch, arch);
        assert_eq!(choose(&devices, &Selector::Auto, SUPPORTED).is_ok(), fits, "{arch}");
    }
}

#[test]
fn no_card_is_an_empty_list_and_its_own_error() {
    for init_status in [100, 101] {
        let devices = listed(&Stub { init_status, ..Stub::default() });
        assert!(devices.is_empty());
        assert_eq!(choose(&devices, &Selector::Auto, SUPPORTED), Err(DeviceError::NoDevice));
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = Stub { init_status: 3, ..Stub::default() }.build(folder.path(), "libamdhip64.so");
    let library = Search::amd_from(Some(path.as_os_str()), None, &[], Path::new("/opt")).open().expect("a stub opens");
    let error = devices(&library).expect_err("another failure is not an empty list");
    assert_eq!((error.call, error.status), ("hipInit", 3));
    assert!(error.to_string().contains("stubError"), "{error}");
}

#[test]
fn variables_that_hide_cards_are_told_also_when_empty() {
    let with = |pairs: &'static [(&str, &str)]| {
        system::hiding_variables(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(*value))
        })
    };
    assert!(with(&[]).is_empty());
    let lines = with(&[("HIP_VISIBLE_DEVICES", "1"), ("ROCR_VISIBLE_DEVICES", "GPU-0123456789abcdef")]);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("HIP_VISIBLE_DEVICES=1 hides"), "{lines:?}");
    assert!(lines[1].starts_with("ROCR_VISIBLE_DEVICES=GPU-0123456789abcdef hides"), "{lines:?}");
    let empty = with(&[("HIP_VISIBLE_DEVICES", "")]);
    assert!(empty[0].contains("set and empty"), "{empty:?}");
}
