"""The config that a command line names."""

import argparse
import os
from pathlib import Path

from regsvc.cli.command_line import creates_state
from regsvc.cli.state_owner import read_as_owner, work_as_owner
from regsvc.config.loader import load_config
from regsvc.config.places import find_config_file
from regsvc.config.sections import Config


def read_config(args: argparse.Namespace) -> Config:
    """Read the config. Raises `ConfigError`."""
    overrides = {"game.directory": args.game_dir} if args.game_dir else {}
    return load_config(_find_config_file(args), os.environ, overrides)


def read_config_as_owner(args: argparse.Namespace) -> Config:
    """Read the config, and work as the owner of the installation from then on. Raises `ConfigError`."""
    read_as_owner(_find_config_file(args))
    config = read_config(args)
    work_as_owner(config, creates_state=creates_state(args))
    return config


def _find_config_file(args: argparse.Namespace) -> Path | None:
    return find_config_file(args.config, args.instance, os.environ)
