"""SOPP, and what of SOP1 and SOPK moves the program counter, asks the hardware, waits or moves registers found through M0."""

from rows import File

# Where a row's instruction stands.
CODE = 0x10000


def flow():
    f = File("control.ins", "Jumps, calls, hardware registers, barriers, messages, hints, and moves of registers found through M0.")
    for name, taken in (("s_branch", None), ("s_cbranch_scc0", "scc=0"), ("s_cbranch_scc1", "scc=1"), ("s_cbranch_vccz", "vcc=0 vcc_hi=1"), ("s_cbranch_vccnz", "vcc=0x80000000"), ("s_cbranch_execz", "exec=0 exec_hi=1"), ("s_cbranch_execnz", "exec=0x80000000")):
        for distance in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
            jump = 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)
            f.row(f"{name} {distance}", taken or "scc=1", f"pc={jump}")
    for name, not_taken in (("s_cbranch_scc0", "scc=1"), ("s_cbranch_scc1", "scc=0"), ("s_cbranch_vccz", "vcc=0x80000000 vcc_hi=0"), ("s_cbranch_vccnz", "vcc=0 vcc_hi=-1"), ("s_cbranch_execz", "exec=1"), ("s_cbranch_execnz", "exec=0 exec_hi=-1")):
        f.row(f"{name} 5", not_taken, "")
    f.comment("Saved program counters are those of the next instruction; a destination that is the source is read first.")
    f.row("s_getpc_b64 s[4:5]", "", f"s[4:5]={CODE + 4:#x}")
    f.row("s_setpc_b64 s[4:5]", f"s[4:5]={CODE + 0x100:#x}", "pc=256")
    f.row("s_swappc_b64 s[4:5], s[6:7]", f"s[6:7]={CODE - 8:#x}", f"pc=-8 s[4:5]={CODE + 4:#x}")
    f.row("s_swappc_b64 s[4:5], s[4:5]", f"s[4:5]={CODE + 16:#x}", f"pc=16 s[4:5]={CODE + 4:#x}")
    f.row("s_swappc_b64 null, s[6:7]", f"s[6:7]={CODE + 16:#x}", "pc=16")
    for distance in (0, 3, 0x7FFF, 0x8000, 0xFFFF):
        jump = 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)
        f.row(f"s_call_b64 s[4:5], {distance}", "", f"pc={jump} s[4:5]={CODE + 4:#x}")
    f.comment("Registers found through M0: added to the number in the instruction.")
    f.row("s_movrels_b32 s5, s7", "m0=10 s17=99", "s5=99")
    f.row("s_movrels_b64 s[4:5], s[6:7]", "m0=10 s[16:17]=0x900000008", "s[4:5]=0x900000008")
    f.row("s_movreld_b32 s5, s7", "m0=10 s7=99", "s15=99")
    f.row("s_movreld_b32 s5, 7", "m0=100", "s105=7")
    f.row("s_movreld_b64 s[4:5], s[6:7]", "m0=10 s[6:7]=0x900000008", "s[14:15]=0x900000008")
    f.row("s_movrelsd_2_b32 s5, s7", f"m0={20 << 16 | 10:#x} s17=99", "s25=99")
    f.row("s_movrels_b32 s5, s7", "m0=99", "fault relative register s106 is outside s0..s105")
    f.row("s_movreld_b64 s[4:5], s[6:7]", "m0=1", "fault relative register s5 is outside")
    f.row("s_movrels_b32 s5, s7", "m0=-1", "fault relative register s4294967302 is outside")
    f.row("s_movrelsd_2_b32 s5, s7", f"m0={101 << 16:#x}", "fault relative register s106 is outside")
    f.comment("Hardware registers: id, first bit, width.")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_MODE)", "mode=0x8000f5", "s5=0x8000f5")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_MODE, 4, 4)", "mode=0xa5", "s5=10")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_MODE, 31, 32)", "mode=0xa5", "s5=0")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_STATUS)", "exec=0 vcc=0", f"s5={1 << 16 | 1 << 10 | 1 << 9:#x}")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_STATUS)", "exec=1 vcc=1", f"s5={1 << 16:#x}")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_STATE_PRIV, 9, 1)", "scc=1", "s5=1")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_STATE_PRIV, 18, 1)", "scratch.bytes=64", "s5=1")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_STATE_PRIV)", "", "fault bits 0 to 31 of STATE_PRIV are not modelled")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_EXCP_FLAG_USER)", "", "s5=0")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_SCRATCH_BASE_HI)", "", "s5=0x20000")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_HW_ID1, 0, 5)", "", "s5=0")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_SHADER_CYCLES_HI)", "", "s5=0")
    f.row("s_getreg_b32 s5, hwreg(HW_REG_WAVE_GPR_ALLOC)", "", "fault hardware register 5 (HW_REG_WAVE_GPR_ALLOC) is not readable here")
    f.row("s_setreg_b32 hwreg(HW_REG_WAVE_MODE, 0, 4), s5", "s5=0xff", "mode=0xff")
    f.row("s_setreg_b32 hwreg(HW_REG_WAVE_MODE, 4, 2), s5", "s5=0xfe", "mode=0xe0")
    f.row("s_setreg_b32 hwreg(HW_REG_WAVE_MODE, 8, 1), s5", "s5=1", "fault MODE bits 0x100 cannot be changed here")
    f.row("s_setreg_b32 hwreg(HW_REG_WAVE_TRAP_CTRL), s5", "s5=0", "fault hardware register 19 (HW_REG_WAVE_TRAP_CTRL) is not writable here")
    f.row("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 23, 2), 3", "", "mode=0x18000f0")
    f.row("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 8), 0x12345678", "", "mode=0x78")
    f.row("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_EXCP_FLAG_USER, 0, 7), 0", "", "")
    f.row("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_EXCP_FLAG_USER, 0, 7), 1", "", "fault HW_REG_WAVE_EXCP_FLAG_USER")
    f.row("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2", "", "")
    f.row("s_round_mode 0x5", "mode=0x8000f0", "mode=0x8000f5")
    f.row("s_denorm_mode 10", "mode=0x8000f5", "mode=0x8000a5")
    f.comment("Barriers: -1 is the workgroup's, -2 the trap handler's, 0 none; M0 cannot name negative ones.")
    f.row("s_barrier_signal -1", "", "flow=signal")
    f.row("s_barrier_signal -2", "scc=1", "")
    f.row("s_barrier_signal 0", "", "")
    f.row("s_barrier_signal 3", "", "fault barrier 3 does not exist")
    f.row("s_barrier_signal m0", "m0=-1", "fault barrier 31 does not exist")
    f.row("s_barrier_signal m0", "m0=32", "")
    f.row("s_barrier_signal_isfirst -1", "", "flow=first")
    f.row("s_barrier_signal_isfirst -2", "scc=1", "scc=0")
    f.row("s_get_barrier_state s5, -1", "", "flow=state5")
    f.row("s_get_barrier_state s5, 2", "", "fault barrier 2 does not exist")
    f.row("s_barrier_wait 0xffff", "", "flow=wait")
    f.row("s_barrier_wait 0xfffe", "", "")
    f.row("s_barrier_wait 1", "", "fault barrier 1 does not exist")
    for name in ("s_barrier_init 1", "s_barrier_join 1"):
        f.row(name, "", "fault named barriers do not exist on gfx1201")
    f.row("s_alloc_vgpr s5", "", "fault dynamic VGPRs")
    f.row("s_rfe_b64 s[4:5]", "", "fault return from a trap handler")
    f.comment("Messages and sleep.")
    f.row("s_sendmsg_rtn_b32 s5, sendmsg(MSG_RTN_GET_DOORBELL)", "s5=7", "s5=0")
    f.row("s_sendmsg_rtn_b64 s[4:5], sendmsg(MSG_RTN_GET_TMA)", "s[4:5]=-1", "s[4:5]=0")
    f.row("s_sendmsg_rtn_b32 s5, sendmsg(MSG_RTN_GET_DDID)", "", "fault message 0x81 has no answer here")
    f.row("s_sendmsg sendmsg(MSG_INTERRUPT)", "", "")
    f.row("s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)", "", "")
    f.row("s_sendmsg sendmsg(MSG_GS_ALLOC_REQ)", "", "fault message 9 belongs to graphics")
    f.row("s_sleep 1", "", "flow=yield")
    f.row("s_sleep 0x8000", "", "fault s_sleep until s_wakeup")
    f.row("s_sleep_var s5", "s5=3", "flow=yield")
    f.row("s_endpgm", "", "flow=end")
    f.row("s_endpgm 5", "", "flow=end")
    f.row("s_code_end", "", "fault the padding behind the code was executed")
    f.comment("No architectural effect.")
    for text in ("s_nop 0", "s_nop 0x7f", "s_clause 0x3", "s_delay_alu instid0(VALU_DEP_1)", "s_wait_alu depctr_va_vdst(0)", "s_wait_idle", "s_wait_event 0x2", "s_wakeup", "s_setprio 3", "s_incperflevel 1", "s_decperflevel 1", "s_ttracedata", "s_ttracedata_imm 0x5", "s_icache_inv", "s_version UC_VERSION_GFX12|UC_VERSION_W32_BIT"):
        f.row(text, "scc=1", "")
    for counter in ("loadcnt", "storecnt", "samplecnt", "bvhcnt", "expcnt", "dscnt", "kmcnt", "loadcnt_dscnt", "storecnt_dscnt"):
        f.row(f"s_wait_{counter} 0x0", "scc=1", "")
        f.row(f"s_wait_{counter} 0x{'303' if '_' in counter else '3'}", "", "")
    for text in ("s_setkill 1", "s_sethalt 1", "s_waitcnt vmcnt(0)", "s_trap 2", "s_barrier_leave", "s_endpgm_saved", "s_sendmsghalt sendmsg(MSG_INTERRUPT)"):
        f.row(text, "", f"fault {text.split()[0]} is not executed by the emulator")
    return f


FILES = [flow]
