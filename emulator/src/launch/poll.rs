//! Loops in which a wave waits for another workgroup without going to sleep. Nothing is modelled by them: a wave that came round such a
//! loop and finds itself as it was will come round again until memory changes, so its turn is better spent on the others. It knows
//! loops by their instructions, not what they wait for.

use super::code::{Op, effects};
use crate::isa::effects::Set;
use crate::isa::{Format, Inst, sopp, vflat};
use crate::wave::{Lanes, Wave};

/// Most instructions of such a loop.
const MOST: usize = 48;

/// A short loop that changes nothing but registers and looks at memory that others write.
pub(super) struct Poll {
    /// Vector registers that it writes.
    vectors: Vec<u8>,
}

/// What becomes of memory in one instruction.
#[derive(PartialEq, Eq)]
enum Touch {
    Nothing,
    /// It reads what another workgroup may have written.
    Looks,
    /// It writes, or it is unknown what it does.
    Writes,
}

fn touch(inst: &Inst) -> Touch {
    let name = inst.row.name;
    match inst.format {
        Format::Flat | Format::Global if name.contains("_load_") && vflat::scope(inst) > 0 => Touch::Looks,
        Format::Flat | Format::Global if name.contains("_atomic_") && vflat::returns(inst) => Touch::Looks,
        Format::Flat | Format::Global | Format::Scratch if name.contains("_load_") => Touch::Nothing,
        Format::Global if name.ends_with("_inv") => Touch::Nothing,
        Format::Smem => Touch::Nothing,
        Format::Sopp if sopp::is_branch(inst) || name.starts_with("s_wait_") => Touch::Nothing,
        Format::Sopp if matches!(name, "s_nop" | "s_sleep" | "s_delay_alu" | "s_clause" | "s_setprio") => {
            Touch::Nothing
        }
        Format::Sop1 if ["barrier", "sendmsg", "pc_b64", "movrel"].iter().any(|part| name.contains(part)) => {
            Touch::Writes
        }
        Format::Sop1 | Format::Sop2 | Format::Sopc => Touch::Nothing,
        Format::Sopk if name != "s_call_b64" && !name.starts_with("s_setreg") => Touch::Nothing,
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd | Format::Vop3p | Format::Vopd
            if !name.contains("rel") =>
        {
            Touch::Nothing
        }
        _ => Touch::Writes,
    }
}

impl Poll {
    /// The loop of `ops`, of which the last jumps back to the first, if it is one that waits.
    pub fn of(ops: &[Op]) -> Option<Poll> {
        if ops.len() > MOST {
            return None;
        }
        let (mut looks, mut writes) = (false, Set::default());
        for op in ops {
            match touch(&op.inst) {
                Touch::Writes => return None,
                Touch::Looks => looks = true,
                Touch::Nothing => {}
            }
            writes = writes.with(&effects(&op.inst).write_set);
        }
        looks.then(|| Poll { vectors: writes.vectors().collect() })
    }
}

/// A wave's registers where it last jumped back: all scalars, and the vectors that its loop writes.
#[derive(Default)]
pub(super) struct Seen {
    /// Position of the jump, and scalars; none before the first one.
    at: Option<(u32, bool, [u32; 128])>,
    vectors: Vec<Lanes>,
}

impl Seen {
    /// Notes a jump back at `position`; whether the wave is as it was there last time.
    fn again(&mut self, poll: &Poll, position: u32, wave: &Wave) -> bool {
        let now = Some((position, wave.scc, wave.sgpr));
        let written = || poll.vectors.iter().map(|&register| &wave.vgpr[register as usize]);
        if self.at == now && self.vectors.iter().eq(written()) {
            return true;
        }
        self.at = now;
        self.vectors.clear();
        self.vectors.extend(written());
        false
    }
}

/// Notes that a wave jumps back at `position`, the end of loop `number`; whether it is as it was there last time. Not inlined, and what
/// was seen not in the frame of the loop that executes instructions, which few of them concern.
#[cold]
#[inline(never)]
pub(super) fn again(seen: &mut Option<Box<Seen>>, polls: &[Poll], number: u32, position: u32, wave: &Wave) -> bool {
    match polls.get((number as usize).wrapping_sub(1)) {
        Some(poll) => seen.get_or_insert_default().again(poll, position, wave),
        None => false,
    }
}
