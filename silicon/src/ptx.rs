//! What a PTX module says about its kernels' parameters: the declarations behind `.entry`, nothing else of the language.

/// A kernel as its declaration states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its symbol.
    pub name: String,
    /// Size of each parameter in bytes, in order.
    pub sizes: Vec<u32>,
}

impl Entry {
    /// Where each parameter lies: each at the next multiple of its size, as the ABI aligns scalars. With its size.
    pub fn layout(&self) -> Vec<(u32, u32)> {
        let mut end = 0;
        let place = |&size: &u32| {
            let offset = u32::next_multiple_of(end, size);
            end = offset + size;
            (offset, size)
        };
        self.sizes.iter().map(place).collect()
    }

    /// Bytes of all parameters.
    pub fn bytes(&self) -> usize {
        self.layout().last().map_or(0, |(offset, size)| (offset + size) as usize)
    }
}

/// Every kernel of a module, in order.
///
/// # Errors
/// A declaration that is not understood, by its text.
pub fn entries(ptx: &str) -> Result<Vec<Entry>, String> {
    let mut found = Vec::new();
    let mut rest = ptx;
    while let Some((_, after)) = rest.split_once(".entry ") {
        let (name, list) = after.split_once('(').ok_or("PTX: a kernel without parameters' parenthesis")?;
        let (list, body) = list.split_once(')').ok_or("PTX: a parameter list without its end")?;
        let parameters = list.split(',').map(str::trim).filter(|text| !text.is_empty());
        let sizes = parameters.map(size).collect::<Result<_, _>>()?;
        found.push(Entry { name: name.trim().to_owned(), sizes });
        rest = body;
    }
    Ok(found)
}

/// Bytes of a parameter such as `.param .u64 .ptr .global .align 16 name`.
fn size(parameter: &str) -> Result<u32, String> {
    let mut words = parameter.split_whitespace();
    let kind = match (words.next(), words.next()) {
        (Some(".param"), Some(kind)) if !parameter.contains('[') => kind,
        _ => return Err(format!("PTX: parameter `{parameter}` is no scalar")),
    };
    match kind.trim_start_matches(['.', 'u', 's', 'b', 'f']) {
        "8" => Ok(1),
        "16" => Ok(2),
        "32" => Ok(4),
        "64" => Ok(8),
        _ => Err(format!("PTX: parameter `{parameter}` of an unknown type")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 8.3
.visible .entry a(
\t.param .u64 .ptr .align 1 a_param_0,
\t.param .u32 a_param_1,
\t.param .u64 a_param_2
)
{
\tret;
}
.visible .entry none()
{
\tret;
}
.visible .entry c(.param .f32 c_param_0) { ret; }
";

    #[test]
    fn parameters_lie_at_multiples_of_their_sizes() {
        let list = entries(TEXT).unwrap();
        assert_eq!(list.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "none", "c"]);
        assert_eq!(list[0].layout(), [(0, 8), (8, 4), (16, 8)]);
        assert_eq!(list.iter().map(Entry::bytes).collect::<Vec<_>>(), [24, 0, 4]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let error = entries(".entry x(.param .align 8 .b8 x_param_0[16])").unwrap_err();
        assert!(error.contains("x_param_0"), "{error}");
        assert!(entries(".entry x(.param .u64 a").unwrap_err().contains("end"));
    }
}
