"""Environments of reinforcement learning: what they render with, and what they return."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="simulator-not-usable", refines=("settings-refused",),
        errors=("FatalError", "GLFWError", "ImportError", "RuntimeError", "AssertionError",
            "ValueError", "TypeError"),
        wordings=(
            Wording(r"gladLoadGL error|Could not (?:create|initialize) (?:EGL|GLFW|OpenGL|"
                r"OSMesa)|Failed to (?:initialize|create) (?:EGL|GLFW|OpenGL|glfw)|GLFWError|"
                r"DISPLAY environment variable is missing|NoSuchDisplayException|cannot connect "
                r"to (?:X server|display)|Cannot connect to ['\"]?None['\"]?|Cannot initialize "
                r"a EGL device display|GPU Foundation is not initialized|vkCreateInstance "
                r"failed|VkResult: ERROR_(?:INCOMPATIBLE_DRIVER|INITIALIZATION_FAILED)",
                "mujoco.FatalError: gladLoadGL error",
                "The simulator renders pictures and finds no display and no way without one: a "
                "node has no X server, and the container no graphics libraries of the driver.",
                "Render without a display: MUJOCO_GL=egl PYOPENGL_PLATFORM=egl (osmesa on a "
                "node without a GPU), --headless for Isaac, xvfb-run for what needs X. In a "
                "container set NVIDIA_DRIVER_CAPABILITIES=all (graphics) and install libegl1 "
                "libgl1 libvulkan1.",
                ("export MUJOCO_GL=egl PYOPENGL_PLATFORM=egl",
                    "ldconfig -p | grep -i egl"),
                owner=Owner.ENVIRONMENT,
                more=("GLFWError: (65544) b'X11: The DISPLAY environment variable is missing'",
                    "ImportError: Cannot initialize a EGL device display.")),
            Wording("only supports .{0,200}as action spaces?|action space .{0,80}not supported|"
                "[Tt]he observation space|observation_space .{0,80}(?:mismatch|do not match|"
                "does not match)|Observation spaces do not match|Action spaces do not match",
                "AssertionError: The algorithm only supports (<class "
                "'gymnasium.spaces.discrete.Discrete'>,) as action spaces but Box(-1.0, 1.0, "
                "(6,), float32) was provided",
                "The algorithm or the saved policy was made for other spaces than this "
                "environment has.",
                "Take an algorithm for this action space (DQN is for Discrete; SAC, TD3 and "
                "DDPG are for Box; PPO takes both), or discretize it. For a saved policy make "
                "the environment with the same wrappers, and load its VecNormalize statistics."),
            Wording(r"values to unpack \(expected [245]|Unsupported structured space '<class 'gym",
                "ValueError: not enough values to unpack (expected 5, got 4)",
                "Where it is env.step() or env.reset(): gymnasium and gym 0.26 return five values "
                "(obs, reward, terminated, truncated, info) and two (obs, info), older ones and "
                "environments written for them four and one.",
                "For env.step() and env.reset() bring both sides to one of them: gymnasium (or "
                "gym 0.26) where your own line has two names for reset() or five for step(); where "
                "the last frame is gym's own, the environment is older: install the gym of its "
                "requirements, or its newer release. Elsewhere assign as many names as there are "
                "parts.",
                ("python -m pip show gym gymnasium",),
                more=("ValueError: too many values to unpack (expected 2)",
                    "AssertionError: Unsupported structured space '<class "
                        "'gymnasium.spaces.dict.Dict'>'"),
                sources=("panda-gym-38",)),
            Wording(r"Environment .{1,80} doesn't exist|NameNotFound|"
                r"gym(?:nasium)?\.error\.\w{3,40}",
                "gymnasium.error.NameNotFound: Environment `PongNoFrameskip` doesn't exist.",
                "No package that is imported registers an environment of this name and version.",
                "Install what brings it (gymnasium[mujoco], gymnasium[atari] with ale-py, the "
                "project itself), import it before gym.make, and name the version that the "
                "installed release has (-v5 since gymnasium 1.0).",
                ('python -c "import gymnasium; print(list(gymnasium.registry)[-20:])"',))),
        why="A simulator finds no display, or does not fit the algorithm and its wrappers."),
)  # fmt: skip
