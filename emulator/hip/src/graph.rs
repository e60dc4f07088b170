//! Graphs: nodes with their work and what they wait for, and executable copies of them. All safe code and no stream: what performs a
//! node is `abi::work`, what fills a graph from a stream is `capture`. An executable graph is a copy; changing the graph does not change it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::runtime::{Handles, Outcome};
use crate::status::Status;
use crate::work::Work;

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Graph it belongs to.
    pub graph: u64,
    /// What it does.
    pub work: Arc<Work>,
    /// Nodes it waits for.
    pub dependencies: Vec<u64>,
    /// The node it is a copy of, else itself.
    pub origin: u64,
}

/// A graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// Its nodes as they were added.
    pub nodes: Vec<u64>,
    /// Whether it is a copy that `hipGraphClone` made.
    pub cloned: bool,
    /// Whether it belongs to a node and goes with it.
    pub embedded: bool,
}

/// What a node of an executable graph does.
#[derive(Debug, Clone)]
pub enum Step {
    /// One thing.
    One(Arc<Work>),
    /// What an embedded graph does.
    Graph(Vec<ExecNode>),
}

/// A node of an executable graph; they stand in an order that keeps every dependency.
#[derive(Debug, Clone)]
pub struct ExecNode {
    /// The graph's node it was made from.
    pub origin: u64,
    /// What it does.
    pub step: Step,
    /// How many nodes it waits for.
    pub dependencies: usize,
    /// Whether a launch performs it.
    pub enabled: bool,
}

/// An executable graph.
#[derive(Debug)]
pub struct Exec {
    /// Its nodes.
    pub nodes: Vec<ExecNode>,
    /// Flags it was made with.
    pub flags: u64,
}

/// Why an update of an executable graph failed: `hipGraphExecUpdateResult`, and the node of the new graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateError {
    /// The result.
    pub result: i32,
    /// The node, 0 for none.
    pub node: u64,
}

/// `hipGraphExecUpdateErrorTopologyChanged`.
const TOPOLOGY_CHANGED: i32 = 2;
/// `hipGraphExecUpdateErrorNodeTypeChanged`.
const NODE_TYPE_CHANGED: i32 = 3;
/// `hipGraphExecUpdateErrorParametersChanged`.
const PARAMETERS_CHANGED: i32 = 5;

/// All graphs of the process.
#[derive(Debug, Default)]
pub struct Graphs {
    graphs: HashMap<u64, Graph>,
    nodes: HashMap<u64, Node>,
    /// Executable graphs.
    pub execs: HashMap<u64, Exec>,
}

impl Graphs {
    /// An empty graph.
    pub fn create(&mut self, handles: &mut Handles) -> u64 {
        let handle = handles.next();
        self.graphs.insert(handle, Graph::default());
        handle
    }

    /// The graph of a handle.
    pub fn graph(&self, graph: u64) -> Outcome<&Graph> {
        self.graphs.get(&graph).ok_or(Status::INVALID_VALUE)
    }

    /// The node of a handle.
    pub fn node(&self, node: u64) -> Outcome<&Node> {
        self.nodes.get(&node).ok_or(Status::INVALID_VALUE)
    }

    /// Whether there is such a graph.
    pub fn contains(&self, graph: u64) -> bool {
        self.graphs.contains_key(&graph)
    }

    /// Removes a graph with its nodes and what they embed.
    pub fn destroy(&mut self, graph: u64) {
        if let Some(removed) = self.graphs.remove(&graph) {
            for node in removed.nodes {
                if let Some(node) = self.nodes.remove(&node) {
                    self.drop_embedded(&node.work);
                }
            }
        }
    }

    fn drop_embedded(&mut self, work: &Work) {
        if let Work::Graph(child) = work {
            self.destroy(*child);
        }
    }

    /// Adds a node that waits for `dependencies`: nodes of this graph, each once.
    pub fn add(&mut self, handles: &mut Handles, graph: u64, dependencies: &[u64], work: Work) -> Outcome<u64> {
        let unique: HashSet<&u64> = dependencies.iter().collect();
        let ours = |node: &u64| self.nodes.get(node).is_some_and(|node| node.graph == graph);
        if !self.graphs.contains_key(&graph) || unique.len() != dependencies.len() || !dependencies.iter().all(ours) {
            return Err(Status::INVALID_VALUE);
        }
        let handle = handles.next();
        let node = Node { graph, work: Arc::new(work), dependencies: dependencies.to_vec(), origin: handle };
        self.nodes.insert(handle, node);
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.nodes.push(handle);
        }
        Ok(handle)
    }

    /// Adds a node that does what `child` does now.
    pub fn add_child(&mut self, handles: &mut Handles, graph: u64, dependencies: &[u64], child: u64) -> Outcome<u64> {
        let copy = self.copy(handles, child)?;
        if let Some(copy) = self.graphs.get_mut(&copy) {
            copy.embedded = true;
        }
        self.add(handles, graph, dependencies, Work::Graph(copy)).inspect_err(|_| self.destroy(copy))
    }

    /// Replaces what a node does by something of the same kind.
    pub fn set_work(&mut self, node: u64, work: Work) -> Outcome {
        let node = self.nodes.get_mut(&node).ok_or(Status::INVALID_VALUE)?;
        if node.work.node_type() != work.node_type() {
            return Err(Status::INVALID_VALUE);
        }
        node.work = Arc::new(work);
        Ok(())
    }

    /// Removes a node and every edge to and from it.
    pub fn destroy_node(&mut self, node: u64) -> Outcome {
        let removed = self.nodes.remove(&node).ok_or(Status::INVALID_VALUE)?;
        self.drop_embedded(&removed.work);
        if let Some(graph) = self.graphs.get_mut(&removed.graph) {
            graph.nodes.retain(|other| *other != node);
            for other in &graph.nodes {
                if let Some(other) = self.nodes.get_mut(other) {
                    other.dependencies.retain(|dependency| *dependency != node);
                }
            }
        }
        Ok(())
    }

    /// Adds edges, each new and between two nodes of the graph.
    pub fn add_dependencies(&mut self, graph: u64, edges: &[(u64, u64)]) -> Outcome {
        self.graph(graph)?;
        for (from, to) in edges {
            if from == to || self.node(*from)?.graph != graph || self.node(*to)?.graph != graph {
                return Err(Status::INVALID_VALUE);
            }
        }
        for (from, to) in edges {
            let to = self.nodes.get_mut(to).ok_or(Status::INVALID_VALUE)?;
            if to.dependencies.contains(from) {
                return Err(Status::INVALID_VALUE);
            }
            to.dependencies.push(*from);
        }
        Ok(())
    }

    /// Removes edges that exist.
    pub fn remove_dependencies(&mut self, graph: u64, edges: &[(u64, u64)]) -> Outcome {
        self.graph(graph)?;
        for (from, to) in edges {
            let to = self.nodes.get_mut(to).ok_or(Status::INVALID_VALUE)?;
            let index = to.dependencies.iter().position(|dependency| dependency == from);
            let index = index.filter(|_| to.graph == graph).ok_or(Status::INVALID_VALUE)?;
            to.dependencies.remove(index);
        }
        Ok(())
    }

    /// Edges, by the node they come from.
    pub fn edges(&self, graph: u64) -> Outcome<Vec<(u64, u64)>> {
        let nodes = &self.graph(graph)?.nodes;
        let mut edges = Vec::new();
        for from in nodes {
            edges.extend(self.dependents(*from)?.into_iter().map(|to| (*from, to)));
        }
        Ok(edges)
    }

    /// Nodes that wait for this one.
    pub fn dependents(&self, node: u64) -> Outcome<Vec<u64>> {
        let nodes = &self.graph(self.node(node)?.graph)?.nodes;
        let waits = |other: &&u64| self.nodes.get(other).is_some_and(|other| other.dependencies.contains(&node));
        Ok(nodes.iter().filter(waits).copied().collect())
    }

    /// Nodes that wait for none.
    pub fn roots(&self, graph: u64) -> Outcome<Vec<u64>> {
        let free = |node: &&u64| self.nodes.get(node).is_some_and(|node| node.dependencies.is_empty());
        Ok(self.graph(graph)?.nodes.iter().filter(free).copied().collect())
    }

    /// The nodes in an order that keeps every dependency, as added where that leaves a choice; `hipErrorInvalidValue` for a circle.
    pub fn order(&self, graph: u64) -> Outcome<Vec<u64>> {
        let nodes = &self.graph(graph)?.nodes;
        let index: HashMap<u64, usize> = nodes.iter().enumerate().map(|(index, node)| (*node, index)).collect();
        let mut dependents = vec![Vec::new(); nodes.len()];
        let mut waiting = vec![0usize; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            for dependency in &self.node(*node)?.dependencies {
                let from = *index.get(dependency).ok_or(Status::INVALID_VALUE)?;
                dependents[from].push(at);
                waiting[at] += 1;
            }
        }
        let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&at| waiting[at] == 0).collect();
        let mut order = Vec::with_capacity(nodes.len());
        while let Some(at) = ready.pop_first() {
            order.push(nodes[at]);
            for &next in &dependents[at] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        if order.len() == nodes.len() { Ok(order) } else { Err(Status::INVALID_VALUE) }
    }

    /// Nodes that `starts` wait for, and theirs, and so on; `starts` too.
    pub fn ancestors(&self, starts: &[u64]) -> HashSet<u64> {
        let mut seen = HashSet::new();
        let mut open = starts.to_vec();
        while let Some(node) = open.pop() {
            if seen.insert(node)
                && let Some(node) = self.nodes.get(&node)
            {
                open.extend(&node.dependencies);
            }
        }
        seen
    }

    /// A copy with nodes of its own, each of which knows its origin.
    pub fn copy(&mut self, handles: &mut Handles, graph: u64) -> Outcome<u64> {
        let old = self.graph(graph)?.nodes.clone();
        let copy = self.create(handles);
        let fresh: HashMap<u64, u64> = old.iter().map(|node| (*node, handles.next())).collect();
        for node in &old {
            let original = self.node(*node)?.clone();
            let work = match *original.work {
                Work::Graph(child) => {
                    let child = self.copy(handles, child)?;
                    if let Some(child) = self.graphs.get_mut(&child) {
                        child.embedded = true;
                    }
                    Arc::new(Work::Graph(child))
                }
                _ => original.work,
            };
            let dependencies = original.dependencies.iter().filter_map(|node| fresh.get(node).copied()).collect();
            let handle = fresh[node];
            self.nodes.insert(handle, Node { graph: copy, work, dependencies, origin: *node });
            if let Some(copy) = self.graphs.get_mut(&copy) {
                copy.nodes.push(handle);
            }
        }
        Ok(copy)
    }

    /// What `hipGraphClone` gives.
    pub fn clone_graph(&mut self, handles: &mut Handles, graph: u64) -> Outcome<u64> {
        let copy = self.copy(handles, graph)?;
        if let Some(copy) = self.graphs.get_mut(&copy) {
            copy.cloned = true;
        }
        Ok(copy)
    }

    /// The node of a clone that is a copy of `origin`.
    pub fn find_in_clone(&self, origin: u64, clone: u64) -> Outcome<u64> {
        let graph = self.graph(clone)?;
        let is_copy = |node: &&u64| self.nodes.get(node).is_some_and(|node| node.origin == origin);
        graph.nodes.iter().filter(|_| graph.cloned).find(is_copy).copied().ok_or(Status::INVALID_VALUE)
    }

    fn exec_nodes(&self, graph: u64) -> Outcome<Vec<ExecNode>> {
        let node = |handle: u64| {
            let node = self.node(handle)?;
            let step = match *node.work {
                Work::Graph(child) => Step::Graph(self.exec_nodes(child)?),
                _ => Step::One(Arc::clone(&node.work)),
            };
            Ok(ExecNode { origin: handle, step, dependencies: node.dependencies.len(), enabled: true })
        };
        self.order(graph)?.into_iter().map(node).collect()
    }

    /// An executable copy.
    pub fn instantiate(&mut self, handles: &mut Handles, graph: u64, flags: u64) -> Outcome<u64> {
        let nodes = self.exec_nodes(graph)?;
        let handle = handles.next();
        self.execs.insert(handle, Exec { nodes, flags });
        Ok(handle)
    }

    /// The executable graph of a handle.
    pub fn exec(&self, exec: u64) -> Outcome<&Exec> {
        self.execs.get(&exec).ok_or(Status::INVALID_VALUE)
    }

    /// The node of an executable graph that was made from `origin`.
    pub fn exec_node(&mut self, exec: u64, origin: u64) -> Outcome<&mut ExecNode> {
        self.node(origin)?;
        let exec = self.execs.get_mut(&exec).ok_or(Status::INVALID_VALUE)?;
        exec.nodes.iter_mut().find(|node| node.origin == origin).ok_or(Status::INVALID_VALUE)
    }

    /// Replaces what a node of an executable graph does by something of the same kind.
    pub fn set_exec_work(&mut self, exec: u64, origin: u64, work: Work) -> Outcome {
        let node = self.exec_node(exec, origin)?;
        match &node.step {
            Step::One(old) if same_kind(old, &work) => {
                node.step = Step::One(Arc::new(work));
                Ok(())
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Replaces what an embedded graph's node does; `hipErrorUnknown` where the two differ in their nodes.
    pub fn set_exec_child(&mut self, exec: u64, origin: u64, child: u64) -> Outcome {
        let fresh = self.exec_nodes(child)?;
        if self.node(origin)?.graph == child {
            return Err(Status::UNKNOWN);
        }
        let node = self.exec_node(exec, origin)?;
        match &mut node.step {
            Step::Graph(old) if compare(old, &fresh).is_ok() => {
                *old = fresh;
                Ok(())
            }
            Step::Graph(_) => Err(Status::UNKNOWN),
            Step::One(_) => Err(Status::INVALID_VALUE),
        }
    }

    /// Takes over what the nodes of `graph` do, where it has the same shape. Nothing is changed when it has not.
    pub fn update(&mut self, exec: u64, graph: u64) -> Outcome<Result<(), UpdateError>> {
        let fresh = self.exec_nodes(graph)?;
        let exec = self.execs.get_mut(&exec).ok_or(Status::INVALID_VALUE)?;
        if let Err(error) = compare(&exec.nodes, &fresh) {
            return Ok(Err(error));
        }
        for (old, fresh) in exec.nodes.iter_mut().zip(fresh) {
            old.step = fresh.step;
        }
        Ok(Ok(()))
    }
}

fn type_of(step: &Step) -> i32 {
    match step {
        Step::One(work) => work.node_type(),
        Step::Graph(_) => Work::Graph(0).node_type(),
    }
}

/// Whether one may take the place of the other in an executable graph: a copy keeps its direction.
fn same_kind(old: &Work, new: &Work) -> bool {
    match (old, new) {
        (Work::Copy(old), Work::Copy(new)) => old.kind == new.kind,
        _ => old.node_type() == new.node_type(),
    }
}

fn compare(old: &[ExecNode], new: &[ExecNode]) -> Result<(), UpdateError> {
    if old.len() != new.len() {
        return Err(UpdateError { result: TOPOLOGY_CHANGED, node: 0 });
    }
    for (old, new) in old.iter().zip(new) {
        let differs = |result| Err(UpdateError { result, node: new.origin });
        if type_of(&old.step) != type_of(&new.step) {
            return differs(NODE_TYPE_CHANGED);
        }
        if old.dependencies != new.dependencies {
            return differs(TOPOLOGY_CHANGED);
        }
        match (&old.step, &new.step) {
            (Step::One(old), Step::One(new)) if !same_kind(old, new) => return differs(PARAMETERS_CHANGED),
            (Step::Graph(old), Step::Graph(fresh)) => {
                compare(old, fresh).map_err(|error| UpdateError { node: new.origin, ..error })?;
            }
            _ => {}
        }
    }
    Ok(())
}
