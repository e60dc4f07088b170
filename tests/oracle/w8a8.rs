//! Activations rounded to 8 bits, from what docs/QUANTIZATION.md says of them: a scale per token and 64 elements.

/// Elements of a group.
const GROUP: usize = 64;

/// Judges the codes `[T, K]` and scales `[K/64, T]` of `x` `[T, K]`, all numbers: the scale is the largest magnitude / 127, each code the
/// nearest whole number of scales, as near as a reciprocal of one unit in the last place and two more roundings know it. What is wrong first, if anything is.
pub fn judge_rounding(x: &[f64], k: usize, codes: &[i8], scales: &[f32]) -> Result<(), String> {
    let tokens = x.len() / k;
    if codes.len() != x.len() || scales.len() != tokens * (k / GROUP) {
        return Err(format!("{} codes and {} scales of {} numbers", codes.len(), scales.len(), x.len()));
    }
    for (index, (x, codes)) in x.chunks(GROUP).zip(codes.chunks(GROUP)).enumerate() {
        let (token, group) = (index / (k / GROUP), index % (k / GROUP));
        let place = format!("token {token}, group {group}");
        let scale = f64::from(scales[group * tokens + token]);
        let most = x.iter().fold(0f64, |most, x| most.max(x.abs()));
        if (scale - most / 127.0).abs() > most / 127.0 * 2f64.powi(-22) {
            return Err(format!("{place}: scale {scale}, the largest is {most}"));
        }
        for (i, (&x, &code)) in x.iter().zip(codes).enumerate() {
            let exact = if most < 1e-30 { 0.0 } else { x / most * 127.0 };
            if (f64::from(code) - exact).abs() > 0.5 + 2f64.powi(-14) {
                return Err(format!("{place}: code {code} of element {i}, {x} is {exact} scales"));
            }
        }
    }
    Ok(())
}

/// What codes and scales stand for, `[T, K]`.
pub fn meant(k: usize, codes: &[i8], scales: &[f32]) -> Vec<f64> {
    let tokens = codes.len() / k;
    let scale = |i: usize| f64::from(scales[i % k / GROUP * tokens + i / k]);
    codes.iter().enumerate().map(|(i, &code)| f64::from(code) * scale(i)).collect()
}
