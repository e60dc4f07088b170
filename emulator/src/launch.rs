//! Launching a kernel: workgroups over threads, waves of a workgroup in turn.
