//! Data-parallel primitives: where source 0 of a DPP instruction comes from, and which lanes it writes. Pure functions of EXEC and
//! the control word; it does not decode the word ([`crate::isa::dpp`]).

use crate::arch::Arch;
use crate::isa::Dpp;
use crate::wave::Lanes;

/// The lane that `lane` reads, none where the control points outside the row.
#[inline(always)]
fn source(control: Dpp, lane: u32) -> Option<u32> {
    match control {
        Dpp::Eight { sel, .. } => Some((lane & !7) | (sel >> ((lane & 7) * 3) & 7)),
        Dpp::Row { ctrl, .. } => row_source(ctrl as u32, lane),
    }
}

/// [`source`] of a DPP16 control.
const fn row_source(ctrl: u32, lane: u32) -> Option<u32> {
    let (row, place, n) = (lane & !15, lane & 15, ctrl & 15);
    let from = match ctrl >> 4 {
        0x00..=0x0f => return Some((lane & !3) | (ctrl >> ((lane & 3) * 2) & 3)),
        0x10 => place + n,
        0x11 => place.wrapping_sub(n),
        0x12 => place.wrapping_sub(n) & 15,
        0x14 if n == 0 => 15 - place,
        0x14 => place ^ 7,
        0x15 => n,
        _ => place ^ n,
    };
    if from < 16 { Some(row | from) } else { None }
}

/// One past the highest DPP16 control.
const CONTROLS: usize = 0x170;

/// Where each place of a row reads, by DPP16 control: its own place where the control points outside.
static PLACES: [[u8; 16]; CONTROLS] = {
    let mut table = [[0; 16]; CONTROLS];
    let mut ctrl = 0;
    while ctrl < CONTROLS {
        let mut place = 0;
        while place < 16 {
            table[ctrl][place] = match row_source(ctrl as u32, place as u32) {
                Some(from) => from as u8,
                None => place as u8,
            };
            place += 1;
        }
        ctrl += 1;
    }
    table
};

/// What all lanes read where lane 16·h + p reads place `places[p]` of row `h ^ other`.
pub fn by_place(lanes: &Lanes, places: &[u8; 16], other: usize) -> Lanes {
    let arch = Arch::new();
    arch.dispatch_made(|| ByPlace { arch, lanes, places, other })
}

struct ByPlace<'a> {
    arch: Arch,
    lanes: &'a Lanes,
    places: &'a [u8; 16],
    other: usize,
}

impl pulp::NullaryFnOnce for ByPlace<'_> {
    type Output = Lanes;
    #[inline(always)]
    fn call(self) -> Lanes {
        let mut rows: [[u32; 16]; 2] = bytemuck::cast(*self.lanes);
        if self.other & 1 != 0 {
            rows.swap(0, 1);
        }
        bytemuck::cast([self.arch.pick(&rows[0], self.places), self.arch.pick(&rows[1], self.places)])
    }
}

/// Whether the control can point outside the row.
fn shifts(control: Dpp) -> bool {
    matches!(control, Dpp::Row { ctrl: 0x101..=0x11f, .. })
}

/// Source 0 after the exchange; lanes that get nothing are 0.
pub fn fetch(exec: u32, lanes: &Lanes, control: Dpp) -> Lanes {
    let fi = match control {
        Dpp::Row { fi, .. } | Dpp::Eight { fi, .. } => fi,
    };
    if exec == u32::MAX && !shifts(control) {
        // The usual case: all lanes are on and every lane has a source, the same one in both rows.
        let places = match control {
            Dpp::Row { ctrl, .. } => PLACES[ctrl as usize % CONTROLS],
            Dpp::Eight { .. } => std::array::from_fn(|place| source(control, place as u32).unwrap_or(0) as u8),
        };
        return by_place(lanes, &places, 0);
    }
    let mut out = [0; 32];
    for lane in 0..32 {
        if let Some(from) = source(control, lane)
            && (fi || exec >> from & 1 != 0)
        {
            out[lane as usize] = lanes[from as usize & 31];
        }
    }
    out
}

/// The lanes that are written: EXEC, the row and bank masks, and without bound control only lanes with a source; fetch-inactive makes a
/// source of a lane that is off. That it makes none of a place outside the row is said by the manual's fields and by AMD's rocjitsu
/// (`dpp_sdwa_ops.h`); the manual's table of both bits says otherwise.
pub fn written(exec: u32, control: Dpp) -> u32 {
    let Dpp::Row { row_mask, bank_mask, fi, bc, .. } = control else { return exec };
    if exec == u32::MAX && row_mask & 3 == 3 && bank_mask == 15 && !shifts(control) {
        return exec;
    }
    let mut out = 0;
    for lane in 0..32 {
        let masked = row_mask >> (lane / 16) & 1 != 0 && bank_mask >> (lane / 4 % 4) & 1 != 0;
        let sourced = bc || source(control, lane).is_some_and(|from| fi || exec >> from & 1 != 0);
        out |= ((masked && sourced) as u32) << lane;
    }
    out & exec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ctrl: u16, fi: bool, bc: bool) -> Dpp {
        Dpp::Row { ctrl, row_mask: 15, bank_mask: 15, fi, bc }
    }

    fn places(control: Dpp) -> Vec<Option<u32>> {
        (0..16).map(|lane| source(control, lane)).collect()
    }

    #[test]
    fn controls_name_the_lanes_the_manual_names() {
        assert_eq!(places(row(0x01b, false, false))[..4], [Some(3), Some(2), Some(1), Some(0)]);
        assert_eq!(source(row(0x01b, false, false), 17), Some(18));
        assert_eq!(places(row(0x101, false, false))[14..], [Some(15), None]);
        assert_eq!(places(row(0x111, false, false))[..2], [None, Some(0)]);
        assert_eq!(places(row(0x121, false, false))[..2], [Some(15), Some(0)]);
        assert_eq!(source(row(0x140, false, false), 16), Some(31));
        assert_eq!(source(row(0x141, false, false), 9), Some(14));
        assert_eq!(source(row(0x15b, false, false), 20), Some(27));
        assert_eq!(source(row(0x163, false, false), 21), Some(22));
        assert_eq!(source(Dpp::Eight { sel: 0o01234567, fi: false }, 8), Some(15));
    }

    #[test]
    fn bound_control_and_fetch_inactive() {
        let lanes: Lanes = std::array::from_fn(|i| i as u32 + 100);
        let exec = 0xffff_fffd; // lane 1 is off
        // Neither: lanes 0 (outside) and 2 (inactive source) are not written.
        assert_eq!(written(exec, row(0x111, false, false)), exec & !(1 | 4 | 1 << 16));
        // Bound control: they read 0.
        assert_eq!(written(exec, row(0x111, false, true)), exec);
        let got = fetch(exec, &lanes, row(0x111, false, true));
        assert_eq!((got[0], got[2], got[3]), (0, 0, 102));
        // Fetch inactive: outside not written, inactive its value.
        assert_eq!(fetch(exec, &lanes, row(0x111, true, false))[2], 101);
        assert_eq!(written(exec, row(0x111, true, false)), exec & !(1 | 1 << 16));
        // Both: outside 0.
        let got = fetch(exec, &lanes, row(0x111, true, true));
        assert_eq!((got[0], got[2]), (0, 101));
        assert_eq!(written(exec, row(0x111, true, true)), exec);
        // DPP8 writes all active lanes; an inactive source reads 0 unless fetched.
        let eight = Dpp::Eight { sel: 0o11111111, fi: false };
        assert_eq!(written(exec, eight), exec);
        assert_eq!(fetch(exec, &lanes, eight)[0], 0);
        assert_eq!(fetch(exec, &lanes, Dpp::Eight { sel: 0o11111111, fi: true })[0], 101);
    }

    /// With all lanes on, every control gives what lane by lane `source` says.
    #[test]
    fn a_whole_wave_is_as_its_lanes() {
        let lanes: Lanes = std::array::from_fn(|i| i as u32 + 100);
        let rows = (0..0x100).chain(0x101..=0x10f).chain(0x111..=0x11f).chain(0x121..=0x12f).chain([0x140, 0x141]);
        let rows = rows.chain(0x150..=0x16f).map(|ctrl| row(ctrl, false, false));
        let eights = [0o01234567, 0o77770000, 0o76543210, 0o31415271].map(|sel| Dpp::Eight { sel, fi: false });
        for control in rows.chain(eights) {
            let want: Vec<Option<u32>> = (0..32).map(|lane| source(control, lane).map(|from| from + 100)).collect();
            let all = fetch(u32::MAX, &lanes, control);
            let mask = written(u32::MAX, control);
            for (lane, want) in want.into_iter().enumerate() {
                assert_eq!(all[lane], want.unwrap_or(0), "{control:?}, lane {lane}");
                assert_eq!(mask >> lane & 1 != 0, want.is_some(), "{control:?}, lane {lane}");
            }
        }
    }

    #[test]
    fn row_and_bank_masks_choose_lanes() {
        let control = Dpp::Row { ctrl: 0xe4, row_mask: 0b01, bank_mask: 0b1010, fi: false, bc: false };
        assert_eq!(written(u32::MAX, control), 0x0000_f0f0);
    }
}
